"""Who may ask: on loopback everybody, unless there is a key; anywhere else only who has it."""

import base64

import pytest

from assay import Rubric
from assay.server import RewardServer, Settings
from assay.server.settings import SettingsError, read_key

GOOD = {"rollouts": [{"completion": "4"}]}


@pytest.fixture(scope="module")
def guarded():
    rubric = Rubric([lambda completion: completion == "4"])
    with RewardServer(rubric, Settings(port=0, key="s3cret")) as server:
        yield server


@pytest.fixture(scope="module")
def keyless():
    rubric = Rubric([lambda completion: completion == "4"])
    settings = Settings(port=0, allow_hosts=("rewards.internal",))
    with RewardServer(rubric, settings) as server:
        yield server


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "reward.example.com"])
def test_where_others_can_reach_it_a_server_needs_a_key(host):
    """It refuses to start, and says what to do."""
    with pytest.raises(SettingsError, match="no key is set: set ASSAY_SERVER_KEY"):
        Settings(host=host)
    assert Settings(host=host, key="s3cret").key == "s3cret"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_on_loopback_it_needs_none(host):
    """Only this machine can ask."""
    assert Settings(host=host).key == ""


def test_a_key_is_not_shown():
    """Not even where the settings are."""
    assert "s3cret" not in repr(Settings(key="s3cret"))


@pytest.mark.parametrize("key", ["two words", "schlüssel", "line\nbreak"])
def test_a_key_that_no_header_can_carry_is_refused(key):
    """At once, and without showing it."""
    with pytest.raises(SettingsError, match="make a new one"):
        Settings(key=key)


def basic(password):
    return f"Basic {base64.b64encode(f'assay:{password}'.encode()).decode()}"


@pytest.mark.parametrize("path", ["/v1/score", "/openrlhf", "/slime", "/verify", "/seed_session"])
@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer s3cre",
        "Bearer s3crett",
        "s3cret",
        "Digest s3cret",
        basic("x"),
        "Basic %",
    ],
)
def test_without_the_right_key_nothing_is_scored(guarded, asking, path, given):
    """401 with a sentence, before the body is looked at."""
    headers = {} if given is None else {"Authorization": given}
    answer = asking(guarded.url, path, b"no JSON", headers=headers)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "the key is missing or wrong" in answer.error


@pytest.mark.parametrize("given", ["Bearer s3cret", "bearer s3cret", basic("s3cret")])
def test_with_it_everything_is(guarded, asking, given):
    """As a bearer, or as the password in an address, for clients that can set no header."""
    answer = asking(guarded.url, "/v1/score", GOOD, headers={"Authorization": given})
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
def test_what_a_probe_needs_is_open(guarded, asking, path, status):
    """What tells of the work is not."""
    assert asking(guarded.url, path, method="GET").status == status
    shown = asking(guarded.url, path, method="GET", headers={"Authorization": "Bearer s3cret"})
    assert shown.status == 200


def test_why_a_reload_failed_is_for_those_with_the_key(guarded, asking):
    """It may name files and what stands in them."""
    guarded.app.reload_error = "rubric.yaml:3: there is no check 'exakt'"
    try:
        strange = asking(guarded.url, "/ready", method="GET").data
        known = asking(
            guarded.url, "/ready", method="GET", headers={"Authorization": "Bearer s3cret"}
        )
    finally:
        guarded.app.reload_error = ""
    assert strange["reload_failed"] is True
    assert "reload_error" not in strange
    assert "exakt" in known.data["reload_error"]


class TestHosts:
    @pytest.mark.parametrize(
        "path",
        ["/v1/score", "/openrlhf", "/slime", "/verify", "/seed_session", "/v1/rubric", "/ready"],
    )
    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""]
    )
    def test_without_a_key_another_name_is_refused(self, keyless, asking, path, host):
        """A page in a browser whose name resolves to this machine is not answered, whatever it asks for."""
        method = "GET" if path in ("/v1/rubric", "/ready") else "POST"
        answer = asking(keyless.url, path, GOOD, method=method, headers={"Host": host})
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
    def test_names_of_this_machine_and_those_allowed_are_answered(self, keyless, asking, host):
        """With any port, since a tunnel may have another."""
        answer = asking(keyless.url, "/v1/score", GOOD, headers={"Host": host})
        assert answer.data["items"] == [{"reward": 1.0, "score": 1.0}]

    def test_with_a_key_any_name_will_do(self, guarded, asking):
        """A page does not know the key, and a server on a network has names of its own."""
        headers = {"Authorization": "Bearer s3cret", "Host": "rewards.example"}
        assert asking(guarded.url, "/v1/score", GOOD, headers=headers).status == 200


class TestWhereItComesFrom:
    def test_from_the_environment(self, monkeypatch):
        """Without the line break that comes with a file."""
        monkeypatch.setenv("ASSAY_SERVER_KEY", "s3cret\n")
        assert read_key(None) == "s3cret"

    def test_a_file_goes_before_it(self, monkeypatch, tmp_path):
        """It was named for this server."""
        monkeypatch.setenv("ASSAY_SERVER_KEY", "other")
        (tmp_path / "key").write_text("s3cret\n")
        assert read_key(tmp_path / "key") == "s3cret"

    def test_an_empty_file_is_no_key(self, tmp_path):
        """Rather than none at all."""
        (tmp_path / "key").write_text("\n")
        with pytest.raises(SettingsError, match="is empty"):
            read_key(tmp_path / "key")

    def test_there_may_be_none(self, monkeypatch):
        """On loopback that will do."""
        monkeypatch.delenv("ASSAY_SERVER_KEY", raising=False)
        assert read_key(None) == ""
