"""Authorization: on loopback a key is optional, and on any other address it is required."""

import base64

import pytest

from assay import Rubric
from assay.server import RewardServer, Settings
from assay.server.settings import SettingsError, read_key

GOOD = {"rollouts": [{"completion": "4"}]}


@pytest.fixture(scope="module")
def server_with_key():
    rubric = Rubric([lambda completion: completion == "4"])
    with RewardServer(rubric, Settings(port=0, key="s3cret")) as server:
        yield server


@pytest.fixture(scope="module")
def server_without_key():
    rubric = Rubric([lambda completion: completion == "4"])
    settings = Settings(port=0, allow_hosts=("rewards.internal",))
    with RewardServer(rubric, settings) as server:
        yield server


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "reward.example.com"])
def test_a_server_that_other_machines_can_reach_needs_a_key(host):
    """Without a key it refuses to start, and says what to do."""
    with pytest.raises(SettingsError, match="no key is set: set ASSAY_SERVER_KEY"):
        Settings(host=host)
    assert Settings(host=host, key="s3cret").key == "s3cret"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_a_server_on_loopback_needs_no_key(host):
    """Only processes on this machine can send requests."""
    assert Settings(host=host).key == ""


def test_the_repr_of_settings_hides_the_key():
    assert "s3cret" not in repr(Settings(key="s3cret"))


@pytest.mark.parametrize("key", ["two words", "schlüssel", "line\nbreak"])
def test_a_key_that_cannot_be_sent_in_a_header_is_refused(key):
    """The error does not contain the key."""
    with pytest.raises(SettingsError, match="make a new one"):
        Settings(key=key)


def basic_authorization(password):
    return f"Basic {base64.b64encode(f'assay:{password}'.encode()).decode()}"


@pytest.mark.parametrize("path", ["/v1/score", "/openrlhf", "/slime", "/verify", "/seed_session"])
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer s3cre",
        "Bearer s3crett",
        "s3cret",
        "Digest s3cret",
        basic_authorization("x"),
        "Basic %",
    ],
)
def test_a_request_without_the_right_key_is_answered_with_401(
    server_with_key, send_request, path, authorization
):
    """The key is checked before the body is read."""
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = send_request(server_with_key.url, path, b"no JSON", headers=headers)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "the key is missing or wrong" in answer.error


@pytest.mark.parametrize(
    "authorization", ["Bearer s3cret", "bearer s3cret", basic_authorization("s3cret")]
)
def test_a_request_with_the_right_key_is_scored(server_with_key, send_request, authorization):
    """As a bearer token, or as the password in a URL for clients that cannot set headers."""
    answer = send_request(
        server_with_key.url, "/v1/score", GOOD, headers={"Authorization": authorization}
    )
    assert answer.data["items"] == [{"reward": 1.0, "score": 1.0}]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health", 200),
        ("/ready", 200),
        ("/openapi.json", 200),
        ("/metrics", 401),
        ("/v1/rubric", 401),
    ],
)
def test_health_checks_need_no_key_but_metrics_and_rubric_do(
    server_with_key, send_request, path, status
):
    assert send_request(server_with_key.url, path, method="GET").status == status
    answer_with_key = send_request(
        server_with_key.url, path, method="GET", headers={"Authorization": "Bearer s3cret"}
    )
    assert answer_with_key.status == 200


def test_the_reason_of_a_failed_reload_is_shown_only_with_the_key(server_with_key, send_request):
    """The reason may contain file names and file contents."""
    server_with_key.app.reload_error = "rubric.yaml:3: there is no check 'exakt'"
    try:
        data_without_key = send_request(server_with_key.url, "/ready", method="GET").data
        answer_with_key = send_request(
            server_with_key.url, "/ready", method="GET", headers={"Authorization": "Bearer s3cret"}
        )
    finally:
        server_with_key.app.reload_error = ""
    assert data_without_key["reload_failed"] is True
    assert "reload_error" not in data_without_key
    assert "exakt" in answer_with_key.data["reload_error"]


class TestHosts:
    @pytest.mark.parametrize(
        "path",
        ["/v1/score", "/openrlhf", "/slime", "/verify", "/seed_session", "/v1/rubric", "/ready"],
    )
    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""]
    )
    def test_without_a_key_an_unknown_host_name_is_answered_with_403(
        self, server_without_key, send_request, path, host
    ):
        """This stops web pages whose host name resolves to this machine (DNS rebinding), on every route."""
        method = "GET" if path in ("/v1/rubric", "/ready") else "POST"
        answer = send_request(
            server_without_key.url, path, GOOD, method=method, headers={"Host": host}
        )
        assert answer.status == 403
        assert f"this server is not {host.partition(':')[0]!r}" in answer.error

    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "LocalHost:8000",
            "127.0.0.1:1",
            "127.0.0.9",
            "[::1]:8000",
            "rewards.internal",
        ],
    )
    def test_names_of_this_machine_and_allowed_hosts_are_accepted(
        self, server_without_key, send_request, host
    ):
        """With any port, since a tunnel may use another."""
        answer = send_request(server_without_key.url, "/v1/score", GOOD, headers={"Host": host})
        assert answer.data["items"] == [{"reward": 1.0, "score": 1.0}]

    def test_with_a_key_any_host_name_is_accepted(self, server_with_key, send_request):
        """A web page does not know the key, and a server on a network has names of its own."""
        headers = {"Authorization": "Bearer s3cret", "Host": "rewards.example"}
        assert send_request(server_with_key.url, "/v1/score", GOOD, headers=headers).status == 200


class TestReadingTheKey:
    def test_the_key_is_read_from_the_environment(self, monkeypatch):
        """The line break at the end of the variable is removed."""
        monkeypatch.setenv("ASSAY_SERVER_KEY", "s3cret\n")
        assert read_key(None) == "s3cret"

    def test_a_key_file_takes_precedence_over_the_environment(self, monkeypatch, tmp_path):
        monkeypatch.setenv("ASSAY_SERVER_KEY", "other")
        (tmp_path / "key").write_text("s3cret\n")
        assert read_key(tmp_path / "key") == "s3cret"

    def test_an_empty_key_file_is_an_error(self, tmp_path):
        """It does not mean that no key is needed."""
        (tmp_path / "key").write_text("\n")
        with pytest.raises(SettingsError, match="is empty"):
            read_key(tmp_path / "key")

    def test_the_key_is_empty_if_none_is_configured(self, monkeypatch):
        """That is enough on loopback."""
        monkeypatch.delenv("ASSAY_SERVER_KEY", raising=False)
        assert read_key(None) == ""
