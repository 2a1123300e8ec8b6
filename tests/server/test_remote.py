"""`RemoteRubric` has the same methods and reports as a local rubric, and raises errors of the server."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from assay import Criterion, GradingError, Rollout, Rubric, RubricError, Score
from assay.server import Bounds, RemoteRubric, RewardServer, ServerRefused, Settings
from assay.testing import make_rollout, make_state


def exact(completion, answer):
    return completion == answer


def short(completion):
    return len(completion) < 10


def turns(state):
    return state["turns"] / 4


def difficulty(difficulty, completion):
    return difficulty


def fails_on_five(completion):
    if completion == "5":
        raise ValueError("five")
    return 1.0


def plain_state(completion):
    return make_state() | {"completion": completion}


def rubric():
    return Rubric(
        [exact, Criterion(check=short, weight=0.5), Criterion(check=fails_on_five, weight=2)]
    )


@pytest.fixture
def serve_remotely():
    """Serve a rubric, and return a remote rubric for it."""
    servers = []

    def serve(rubric, bounds=None, **options):
        server = RewardServer(rubric, Settings(port=0, bounds=bounds or Bounds()))
        servers.append(server)
        server.__enter__()
        return RemoteRubric(server.url, **options)

    yield serve
    for server in servers:
        server.__exit__(None, None, None)


class TestLikeALocalRubric:
    async def test_reports_equal_those_of_the_local_rubric(self, serve_remotely):
        """For scored, wrong and failed rollouts."""
        local = rubric()
        rollouts = [make_rollout("4"), make_rollout("a long, wrong answer"), make_rollout("5")]
        remote_reports = await serve_remotely(local).score(rollouts)
        version = {"version": local.content_hash}
        assert [r.to_dict() for r in remote_reports] == [
            r.to_dict() | version for r in await local.score(rollouts)
        ]
        assert [report.scored for report in remote_reports] == [True, True, False]

    async def test_rewards_of_steps_are_returned(self, serve_remotely):
        """In the report, and in the steps of a state."""
        length = Criterion(
            check=lambda step: len(step.text) / 4, name="close", scope="step", combine="mean"
        )
        messages = [
            {"role": role, "content": text}
            for role, text in (("assistant", "1"), ("user", "?"), ("assistant", "22"))
        ]
        state = make_state(messages, trajectory=[{"reward": None}, {"reward": None}])
        report = await serve_remotely(Rubric([length])).score_rollout(state)
        assert (report.step_rewards, report.report[0].steps) == (
            {"m2": 0.25, "m4": 0.5},
            {"m2": 0.25, "m4": 0.5},
        )
        assert [step["reward"] for step in state["trajectory"]] == [0.25, 0.5]

    async def test_states_and_columns_are_sent(self, serve_remotely):
        """One check reads a column, and another the state."""
        local = Rubric([turns, difficulty])
        rollout = Rollout(completion="x", state={"turns": 2}, columns={"difficulty": 0.25})
        state = make_state("x", turns=3, difficulty=0.5)
        remote = serve_remotely(local)
        for argument, expected in ((rollout, 0.5 + 0.25), (state, 0.75 + 0.5)):
            [remote_report] = await remote.score([argument])
            [local_report] = await local.score([argument])
            assert remote_report.raw_score == local_report.raw_score == expected

    async def test_a_state_is_updated_as_by_a_local_rubric(self, serve_remotely):
        """Reward, metrics, errors and timing."""
        state = plain_state("5")
        await serve_remotely(rubric()).score_rollout(state)
        assert (state["reward"], state["partial_reward"]) == (None, pytest.approx(0.5))
        assert state["errors"] == {"fails_on_five": "ValueError: five"}
        assert state["timing"]["scoring_ms"] > 0

    async def test_a_group_gets_advantages(self, serve_remotely):
        """Rewards of 3.5 and 2.5 give advantages of 0.5 and -0.5; the unscored rollout has none."""
        states = [plain_state("4"), plain_state("3"), plain_state("5")]
        await serve_remotely(rubric()).score_group(states)
        assert [state["advantage"] for state in states] == [0.5, -0.5, None]

    def test_the_synchronous_methods_work(self, serve_remotely):
        """In a program without an event loop."""
        remote = serve_remotely(rubric())
        assert remote.score_rollout_sync(completion="4", answer="4") == {
            "exact": 1.0,
            "short": 1.0,
            "fails_on_five": 1.0,
            "reward": 3.5,
        }
        assert remote.grade_sync("4", answer="4").score == 1.0
        columns = remote.score_rollouts(["", ""], ["4", "5"], ["4", "4"])
        assert columns["fails_on_five"] == [1.0, None]

    async def test_the_synchronous_methods_work_inside_a_running_loop(self, serve_remotely):
        """As in a notebook."""
        assert serve_remotely(rubric()).grade_sync("4", answer="4").score == 1.0

    def test_an_incomplete_grading_raises_an_error_with_its_report(self, serve_remotely):
        """As a local rubric does."""
        with pytest.raises(GradingError, match="five") as caught:
            serve_remotely(rubric()).grade_sync("5")
        assert caught.value.report.answered == 2

    async def test_no_rollouts_give_no_reports(self, serve_remotely):
        """No request is sent."""
        assert await RemoteRubric("http://127.0.0.1:9", patience=0).score([]) == []

    async def test_a_lone_surrogate_is_sent_and_returned_unchanged(self, serve_remotely):
        """A model under test wrote it, and the check returns it in its reason."""

        def echo(completion):
            return Score(1.0, completion)

        [report] = await serve_remotely(Rubric([echo])).score([make_rollout("\ud800")])
        assert report.lines[0].reason == "\ud800"

    async def test_a_remote_rubric_can_be_a_criterion_of_another_rubric(self, serve_remotely):
        """It counts with its normalised score: 1 of 1, at a weight of 0.5."""
        remote = serve_remotely(Rubric([short]))
        outer = Rubric([Criterion(check=remote, weight=0.5, name="there")])
        [report] = await outer.score([make_rollout("4")])
        assert report.metrics == {"there": 1.0}

    async def test_the_content_hash_is_that_of_the_served_rubric(self, serve_remotely):
        local = rubric()
        assert serve_remotely(local).content_hash == local.content_hash


class TestBatches:
    async def test_rollouts_are_sent_in_batches_and_reports_come_back_in_order(
        self, serve_remotely
    ):
        """Seven rollouts in batches of three."""
        remote = serve_remotely(Rubric([lambda completion: float(completion)]), batch_size=3)
        reports = await remote.score([make_rollout(str(i)) for i in range(7)])
        assert [report.raw_score for report in reports] == [0, 1, 2, 3, 4, 5, 6]

    async def test_batches_stay_within_the_limits_of_the_server(self, serve_remotely):
        """Two rollouts in a request, or as many as fit into 2,000 bytes."""
        remote = serve_remotely(Rubric([short]), Bounds(max_batch=2))
        assert len(await remote.score([make_rollout("4")] * 5)) == 5
        remote = serve_remotely(Rubric([short]), Bounds(max_bytes=2000))
        assert len(await remote.score([make_rollout("x" * 900)] * 5)) == 5

    async def test_compared_rollouts_are_sent_in_one_request(self, serve_remotely):
        """The batch size is 2, but all four go together; more than the server accepts are refused."""

        def longest(completions) -> list[float]:
            return [float(len(c) == max(map(len, completions))) for c in completions]

        remote = serve_remotely(Rubric([longest]), Bounds(max_batch=4), batch_size=2)
        reports = await remote.score([make_rollout("x" * i) for i in (1, 4, 3, 2)])
        assert [report.raw_score for report in reports] == [0.0, 1.0, 0.0, 0.0]
        with pytest.raises(ValueError, match="'longest' compares rollouts"):
            await remote.score([make_rollout("x")] * 5)
        with pytest.raises(RubricError, match="use score_group"):
            await remote.score_rollout(make_state("4"))

    async def test_a_value_that_json_cannot_hold_is_named_in_the_error(self, serve_remotely):
        """The error names the rollout and the value."""
        remote = serve_remotely(Rubric([short]))
        with pytest.raises(TypeError, match=r"rollout 1 cannot be sent.*JSON cannot hold <object"):
            await remote.score([make_rollout("4"), make_rollout("4", column=object())])
        with pytest.raises(TypeError, match="rollout 0 cannot be sent"):
            await remote.score([make_rollout("4", answer=float("nan"))])

    async def test_thinking_and_output_as_two_parts_are_refused(self, serve_remotely):
        """Only a local judge could read them."""
        with pytest.raises(TypeError, match="join thinking and output"):
            await serve_remotely(Rubric([short])).grade({"thinking": "2 and 2", "output": "4"})

    async def test_a_judge_cannot_be_passed_to_a_remote_rubric(self, serve_remotely):
        """Only the server calls judges."""
        from assay import PerCriterionGrader
        from assay.testing import FakeModel

        grader = PerCriterionGrader(generate_fn=FakeModel("MET"))
        with pytest.raises(RubricError, match="leave judge out"):
            await serve_remotely(Rubric([short])).grade("4", grader)


RUBRIC = {
    "rubric": "0" * 64,
    "name": "",
    "criteria": [{"name": "short", "weight": 1.0, "counts": True, "judged": False}],
    "compares": [],
    "max_batch": 10,
    "max_bytes": 10_000,
}
SCORED = Rubric([short]).grade_sync("4").to_dict()


class ScriptedServer:
    """A server that sends scripted answers: an error status, or the hash of the rubric that it scored with."""

    def __init__(self):
        self.script = []
        self.authorizations = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.send_json(200, RUBRIC)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.authorizations.append(self.headers.get("Authorization"))
                answer = outer.script.pop(0) if outer.script else "0" * 64
                if answer == "hang up":
                    self.close_connection = True
                    return
                if isinstance(answer, int):
                    self.send_json(answer, {"error": "a sentence"}, {"Retry-After": "0"})
                    return
                items = [{"reward": 1, "score": 1, "report": SCORED}] * len(body["rollouts"])
                self.send_json(200, {"rubric": answer, "items": items})

            def send_json(self, status, data, headers=()):
                body = json.dumps(data).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def scripted():
    with ScriptedServer() as server:
        yield server


class TestFailures:
    @pytest.mark.parametrize("failure", [429, 503, 502, 504, "hang up"])
    async def test_temporary_failures_are_retried(self, scripted, failure):
        """Twice refused, then answered."""
        scripted.script = [failure, failure]
        [report] = await RemoteRubric(scripted.url).score([make_rollout("4")])
        assert (report.score, len(scripted.authorizations)) == (1.0, 3)

    @pytest.mark.parametrize("status", [400, 401, 404, 413, 415, 500])
    async def test_permanent_failures_are_raised_immediately(self, scripted, status):
        """The error contains the message of the server."""
        scripted.script = [status]
        with pytest.raises(ServerRefused, match=f"{status}, a sentence") as caught:
            await RemoteRubric(scripted.url).score([make_rollout("4")])
        assert (caught.value.status, len(scripted.authorizations)) == (status, 1)

    async def test_a_rollout_is_unscored_when_the_retries_run_out(self, scripted):
        """It does not get a zero; every criterion has the error."""
        scripted.script = [429] * 1000
        [report] = await RemoteRubric(scripted.url, patience=0).score([make_rollout("4")])
        assert (report.scored, report.score) == (False, None)
        assert "429, a sentence" in report.errors["short"]

    async def test_the_last_failure_is_raised_with_on_error_raise(self, scripted):
        """As a local rubric with the same option does."""
        scripted.script = [503] * 1000
        remote = RemoteRubric(scripted.url, patience=0, on_error="raise")
        with pytest.raises(ServerRefused, match="503, a sentence"):
            await remote.score([make_rollout("4")])

    async def test_an_unreachable_server_is_an_error(self):
        """The rubric is unknown, so there is nothing to report."""
        with pytest.raises(ServerRefused, match="ConnectionError"):
            await RemoteRubric("http://127.0.0.1:9", patience=0).score([make_rollout("4")])

    async def test_a_server_of_another_kind_is_an_error(self, monkeypatch, scripted):
        """It answers, but with something else."""
        monkeypatch.setitem(RUBRIC, "criteria", None)
        with pytest.raises(ServerRefused, match="is not a reward server"):
            await RemoteRubric(scripted.url).score([make_rollout("4")])

    async def test_scores_of_two_rubric_versions_are_never_mixed(self, scripted):
        """The rubric changes between the first request and the second: both are sent again."""
        scripted.script = ["0" * 64, "1" * 64, "1" * 64, "1" * 64]
        remote = RemoteRubric(scripted.url, batch_size=1, at_once=1)
        reports = await remote.score([make_rollout("4")] * 2)
        assert (len(reports), len(scripted.authorizations)) == (2, 4)

    async def test_a_rubric_that_keeps_changing_is_an_error(self, scripted):
        """After three rounds."""
        scripted.script = [str(number) * 64 for number in range(6)]
        with pytest.raises(ServerRefused, match="changed during 3 tries"):
            await RemoteRubric(scripted.url, batch_size=1).score([make_rollout("4")] * 2)

    async def test_the_key_is_sent_as_a_bearer_token(self, scripted):
        await RemoteRubric(scripted.url, "s3cret").score([make_rollout("4")])
        assert scripted.authorizations == ["Bearer s3cret"]

    async def test_a_wrong_key_is_an_error(self):
        """It is not a temporary failure."""
        with RewardServer(Rubric([short]), Settings(port=0, key="s3cret")) as server:
            with pytest.raises(ServerRefused, match="the key is missing or wrong"):
                await RemoteRubric(server.url, "other").score([make_rollout("4")])
            [report] = await RemoteRubric(server.url, "s3cret").score([make_rollout("4")])
        assert report.score == 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "127.0.0.1:8000"}, "is not an address"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"at_once": 0}, "at_once is 0"),
        ({"patience": -1}, "patience is -1"),
        ({"on_error": "zero"}, "on_error is 'zero'"),
    ],
)
def test_invalid_options_are_refused_at_construction(options, words):
    with pytest.raises(Exception, match=words):
        RemoteRubric(**{"url": "http://127.0.0.1:8000", **options})
