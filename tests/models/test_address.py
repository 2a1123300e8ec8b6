"""Addresses: taken apart once, and refused when they are none."""

import pytest

from assay.errors import Refused
from assay.models.address import Address, Host, proxy_for


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine the tests run on."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    proxy_for.cache_clear()


def sent_to(url: str, **headers: str) -> str:
    return Address(url, headers).request(b"{}").decode()


HOSTS = {
    "http://127.0.0.1:8000/v1": Host("127.0.0.1", 8000, secure=False),
    "http://example.test/v1": Host("example.test", 80, secure=False),
    "https://example.test/v1": Host("example.test", 443, secure=True),
    "https://[::1]:8443/v1": Host("::1", 8443, secure=True),
    "https://münchen.test/v1": Host("xn--mnchen-3ya.test", 443, secure=True),
}


@pytest.mark.parametrize("url", HOSTS)
def test_an_address_says_whom_to_connect_to(url: str) -> None:
    """With the usual port where it names none."""
    assert Address(url, {}).place == (HOSTS[url], None, "")


def test_a_request_is_its_headers_and_its_body() -> None:
    """With the length of the body, and nothing compressed."""
    assert sent_to("http://127.0.0.1:8000/v1/x", Key="s3cret") == (
        "POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAccept: application/json\r\n"
        "Accept-Encoding: identity\r\nUser-Agent: assay\r\nKey: s3cret\r\n"
        "Content-Length: 2\r\n\r\n{}"
    )


FIRST_LINES = {
    "http://a.test": "POST / HTTP/1.1\r\nHost: a.test\r\n",
    "https://a.test:443/v1": "POST /v1 HTTP/1.1\r\nHost: a.test\r\n",
    "http://[::1]/v1": "POST /v1 HTTP/1.1\r\nHost: [::1]\r\n",
    "http://a.test/v 1/é?api-version=1&x=a b": (
        "POST /v%201/%C3%A9?api-version=1&x=a%20b HTTP/1.1\r\nHost: a.test\r\n"
    ),
    "http://a.test/%2Fdone%20": "POST /%2Fdone%20 HTTP/1.1\r\nHost: a.test\r\n",
}


@pytest.mark.parametrize("url", FIRST_LINES)
def test_a_path_is_escaped_once(url: str) -> None:
    """What is escaped already stays as it is."""
    assert sent_to(url).startswith(FIRST_LINES[url])


def test_a_name_and_password_become_a_header() -> None:
    """ada:b/c is YWRhOmIvYw== in base 64; a header that is given goes first."""
    url = "http://ada:b%2Fc@a.test/v1"
    assert "Authorization: Basic YWRhOmIvYw==\r\n" in sent_to(url)
    assert "Authorization: Bearer x\r\n" in sent_to(url, Authorization="Bearer x")


@pytest.mark.parametrize(
    "url",
    ["ftp://a.test", "a.test/v1", "http://", "http:///v1", "http://a.test:99999", "http://[::1"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """When the model is made, not at its first call."""
    with pytest.raises(Refused, match="is no address: give one such as"):
        Address(url, {})


@pytest.mark.parametrize("key", ["s3cret\n", "s3cret\r\nX: y", "s3cret\0", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    """A line break at its end is the usual case: it was read from a file."""
    with pytest.raises(Refused, match="the header Authorization holds a line break") as refused:
        Address("https://a.test/v1", {"Authorization": f"Bearer {key}"})
    assert "s3cret" not in str(refused.value)


def test_a_proxy_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kind of the address, but not for this machine."""
    monkeypatch.setenv("https_proxy", "http://ada:pw@proxy.test:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    proxy = Host("proxy.test", 3128, secure=False)
    place = Address("https://api.test/v1", {}).place
    assert place == (Host("api.test", 443, secure=True), proxy, "Basic YWRhOnB3")
    assert Address("https://127.0.0.1/v1", {}).place.proxy is None
    assert Address("http://api.test/v1", {}).place.proxy is None


def test_a_proxy_reads_where_a_plain_request_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own password goes along; to a host with TLS it goes into the tunnel's request."""
    monkeypatch.setenv("http_proxy", "http://ada:pw@proxy.test:3128")
    request = sent_to("http://api.test/v1")
    assert request.startswith("POST http://api.test/v1 HTTP/1.1\r\nHost: api.test\r\n")
    assert "Proxy-Authorization: Basic YWRhOnB3\r\n" in request


def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """SOCKS is not spoken here. Its password is not shown."""
    monkeypatch.setenv("https_proxy", "socks5://ada:pw@proxy.test:1080")
    with pytest.raises(Refused, match=r"'socks5://\*\*\*@proxy\.test:1080' is no address"):
        Address("https://api.test/v1", {})
