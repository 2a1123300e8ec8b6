"""RemoteRubric: the same calls and the same reports as on the spot, and errors as errors."""

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
def serving():
    """Serve a rubric, and give the remote one beside it."""
    servers = []

    def serve(rubric, bounds=None, **options):
        server = RewardServer(rubric, Settings(port=0, bounds=bounds or Bounds()))
        servers.append(server)
        server.__enter__()
        return RemoteRubric(server.url, **options)

    yield serve
    for server in servers:
        server.__exit__(None, None, None)


class TestTheSame:
    async def test_reports_are_the_same_line_by_line(self, serving):
        """Answered, wrong and failed ones; as data, for numbers and texts alike."""
        here = rubric()
        rollouts = [make_rollout("4"), make_rollout("a long, wrong answer"), make_rollout("5")]
        there = await serving(here).score(rollouts)
        version = {"version": here.content_hash}
        assert [r.to_dict() for r in there] == [
            r.to_dict() | version for r in await here.score(rollouts)
        ]
        assert [report.scored for report in there] == [True, True, False]

    async def test_the_rewards_of_turns_arrive(self, serving):
        """In the report, and in the steps of a state."""
        close = Criterion(
            check=lambda step: len(step.text) / 4, name="close", scope="step", combine="mean"
        )
        said = [
            {"role": role, "content": text}
            for role, text in (("assistant", "1"), ("user", "?"), ("assistant", "22"))
        ]
        state = make_state(said, trajectory=[{"reward": None}, {"reward": None}])
        report = await serving(Rubric([close])).score_rollout(state)
        assert (report.step_rewards, report.report[0].steps) == (
            {"m2": 0.25, "m4": 0.5},
            {"m2": 0.25, "m4": 0.5},
        )
        assert [step["reward"] for step in state["trajectory"]] == [0.25, 0.5]

    async def test_states_and_columns_arrive(self, serving):
        """A check that names a column, and one that reads the state."""
        here = Rubric([turns, difficulty])
        rollout = Rollout(completion="x", state={"turns": 2}, columns={"difficulty": 0.25})
        state = make_state("x", turns=3, difficulty=0.5)
        remote = serving(here)
        for given, points in ((rollout, 0.5 + 0.25), (state, 0.75 + 0.5)):
            [there] = await remote.score([given])
            [locally] = await here.score([given])
            assert there.raw_score == locally.raw_score == points

    async def test_a_state_is_written_into_as_usual(self, serving):
        """Reward, metrics, errors and timing."""
        state = plain_state("5")
        await serving(rubric()).score_rollout(state)
        assert (state["reward"], state["partial_reward"]) == (None, pytest.approx(0.5))
        assert state["errors"] == {"fails_on_five": "ValueError: five"}
        assert state["timing"]["scoring_ms"] > 0

    async def test_a_group_gets_advantages(self, serving):
        """Rewards of 3.5 and 2.5, so half a point either side; the unscored one has none."""
        states = [plain_state("4"), plain_state("3"), plain_state("5")]
        await serving(rubric()).score_group(states)
        assert [state["advantage"] for state in states] == [0.5, -0.5, None]

    def test_sync_doors_work(self, serving):
        """From a program without a loop."""
        remote = serving(rubric())
        assert remote.score_rollout_sync(completion="4", answer="4") == {
            "exact": 1.0,
            "short": 1.0,
            "fails_on_five": 1.0,
            "reward": 3.5,
        }
        assert remote.grade_sync("4", answer="4").score == 1.0
        columns = remote.score_rollouts(["", ""], ["4", "5"], ["4", "4"])
        assert columns["fails_on_five"] == [1.0, None]

    async def test_and_from_inside_a_running_loop(self, serving):
        """As in a notebook."""
        assert serving(rubric()).grade_sync("4", answer="4").score == 1.0

    def test_a_grade_without_all_answers_is_raised_with_its_report(self, serving):
        """As a rubric does that is here."""
        with pytest.raises(GradingError, match="five") as caught:
            serving(rubric()).grade_sync("5")
        assert caught.value.report.answered == 2

    async def test_no_rollouts_give_no_reports(self, serving):
        """And no request."""
        assert await RemoteRubric("http://127.0.0.1:9", patience=0).score([]) == []

    async def test_half_a_character_goes_there_and_back(self, serving):
        """A model under test wrote it, and the check says it back."""

        def echo(completion):
            return Score(1.0, completion)

        [report] = await serving(Rubric([echo])).score([make_rollout("\ud800")])
        assert report.lines[0].reason == "\ud800"

    async def test_it_can_be_a_line_of_another_rubric(self, serving):
        """Worth its normalised score: 1 of 1, half of which counts here."""
        inner = serving(Rubric([short]))
        outer = Rubric([Criterion(check=inner, weight=0.5, name="there")])
        [report] = await outer.score([make_rollout("4")])
        assert report.metrics == {"there": 1.0}

    async def test_its_hash_is_the_rubric_s(self, serving):
        """Wherever it is asked for."""
        here = rubric()
        assert serving(here).content_hash == here.content_hash


class TestBatches:
    async def test_many_rollouts_go_in_requests_of_a_bounded_size(self, serving):
        """Seven rollouts in threes come back in order."""
        remote = serving(Rubric([lambda completion: float(completion)]), batch_size=3)
        reports = await remote.score([make_rollout(str(i)) for i in range(7)])
        assert [report.raw_score for report in reports] == [0, 1, 2, 3, 4, 5, 6]

    async def test_the_server_s_limits_are_kept(self, serving):
        """Two rollouts at a time, or as many as 2,000 bytes hold."""
        remote = serving(Rubric([short]), Bounds(max_batch=2))
        assert len(await remote.score([make_rollout("4")] * 5)) == 5
        remote = serving(Rubric([short]), Bounds(max_bytes=2000))
        assert len(await remote.score([make_rollout("x" * 900)] * 5)) == 5

    async def test_rollouts_that_are_compared_stay_together(self, serving):
        """The longest of four, although two go into a request otherwise; beyond the limit it is refused."""

        def longest(completions) -> list[float]:
            return [float(len(c) == max(map(len, completions))) for c in completions]

        remote = serving(Rubric([longest]), Bounds(max_batch=4), batch_size=2)
        reports = await remote.score([make_rollout("x" * i) for i in (1, 4, 3, 2)])
        assert [report.raw_score for report in reports] == [0.0, 1.0, 0.0, 0.0]
        with pytest.raises(ValueError, match="'longest' compares rollouts"):
            await remote.score([make_rollout("x")] * 5)
        with pytest.raises(RubricError, match="use score_group"):
            await remote.score_rollout(make_state("4"))

    async def test_what_json_cannot_carry_is_named(self, serving):
        """The rollout, and what in it."""
        remote = serving(Rubric([short]))
        with pytest.raises(TypeError, match=r"rollout 1 cannot be sent.*JSON cannot hold <object"):
            await remote.score([make_rollout("4"), make_rollout("4", column=object())])
        with pytest.raises(TypeError, match="rollout 0 cannot be sent"):
            await remote.score([make_rollout("4", answer=float("nan"))])

    async def test_what_only_a_judge_here_could_read_is_refused(self, serving):
        """Thinking and output as two parts."""
        with pytest.raises(TypeError, match="join thinking and output"):
            await serving(Rubric([short])).grade({"thinking": "2 and 2", "output": "4"})

    async def test_the_judge_is_the_server_s(self, serving):
        """Another one here would not be asked."""
        from assay import PerCriterionGrader
        from assay.testing import FakeModel

        grader = PerCriterionGrader(generate_fn=FakeModel("MET"))
        with pytest.raises(RubricError, match="leave judge out"):
            await serving(Rubric([short])).grade("4", grader)


RUBRIC = {
    "rubric": "0" * 64,
    "name": "",
    "criteria": [{"name": "short", "weight": 1.0, "counts": True, "judged": False}],
    "compares": [],
    "max_batch": 10,
    "max_bytes": 10_000,
}
SCORED = Rubric([short]).grade_sync("4").to_dict()


class Scripted:
    """A server that says what it is told to say: statuses, or the hash of a rubric it scored with."""

    def __init__(self):
        self.script = []
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.say(200, RUBRIC)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(self.headers.get("Authorization"))
                said = outer.script.pop(0) if outer.script else "0" * 64
                if said == "hang up":
                    self.close_connection = True
                    return
                if isinstance(said, int):
                    self.say(said, {"error": "a sentence"}, {"Retry-After": "0"})
                    return
                items = [{"reward": 1, "score": 1, "report": SCORED}] * len(body["rollouts"])
                self.say(200, {"rubric": said, "items": items})

            def say(self, status, data, headers=()):
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
    with Scripted() as server:
        yield server


class TestTroubles:
    @pytest.mark.parametrize("trouble", [429, 503, 502, 504, "hang up"])
    async def test_what_passes_is_waited_out(self, scripted, trouble):
        """Twice refused, then answered."""
        scripted.script = [trouble, trouble]
        [report] = await RemoteRubric(scripted.url).score([make_rollout("4")])
        assert (report.score, len(scripted.asked)) == (1.0, 3)

    @pytest.mark.parametrize("status", [400, 401, 404, 413, 415, 500])
    async def test_what_does_not_is_raised_at_once(self, scripted, status):
        """With the server's own sentence."""
        scripted.script = [status]
        with pytest.raises(ServerRefused, match=f"{status}, a sentence") as caught:
            await RemoteRubric(scripted.url).score([make_rollout("4")])
        assert (caught.value.status, len(scripted.asked)) == (status, 1)

    async def test_patience_ends_in_an_unscored_rollout_and_no_zero(self, scripted):
        """Every line has the error."""
        scripted.script = [429] * 1000
        [report] = await RemoteRubric(scripted.url, patience=0).score([make_rollout("4")])
        assert (report.scored, report.score) == (False, None)
        assert "429, a sentence" in report.errors["short"]

    async def test_or_is_raised_where_that_is_wanted(self, scripted):
        """As by a rubric with the same option."""
        scripted.script = [503] * 1000
        remote = RemoteRubric(scripted.url, patience=0, on_error="raise")
        with pytest.raises(ServerRefused, match="503, a sentence"):
            await remote.score([make_rollout("4")])

    async def test_a_server_that_is_not_there_is_an_error(self):
        """Nothing is known of its rubric, so there is nothing to report."""
        with pytest.raises(ServerRefused, match="ConnectionError"):
            await RemoteRubric("http://127.0.0.1:9", patience=0).score([make_rollout("4")])

    async def test_another_kind_of_server_is_told_apart(self, monkeypatch, scripted):
        """One that answers, but with something else."""
        monkeypatch.setitem(RUBRIC, "criteria", None)
        with pytest.raises(ServerRefused, match="is not a reward server"):
            await RemoteRubric(scripted.url).score([make_rollout("4")])

    async def test_scores_of_two_rubrics_are_never_mixed(self, scripted):
        """The rubric changes between the first request and the second: both are asked again."""
        scripted.script = ["0" * 64, "1" * 64, "1" * 64, "1" * 64]
        remote = RemoteRubric(scripted.url, batch_size=1, at_once=1)
        reports = await remote.score([make_rollout("4")] * 2)
        assert (len(reports), len(scripted.asked)) == (2, 4)

    async def test_a_rubric_that_keeps_changing_is_an_error(self, scripted):
        """After three rounds."""
        scripted.script = [str(number) * 64 for number in range(6)]
        with pytest.raises(ServerRefused, match="changed during 3 tries"):
            await RemoteRubric(scripted.url, batch_size=1).score([make_rollout("4")] * 2)

    async def test_the_key_goes_along(self, scripted):
        """As a bearer's."""
        await RemoteRubric(scripted.url, "s3cret").score([make_rollout("4")])
        assert scripted.asked == ["Bearer s3cret"]

    async def test_a_key_that_is_wrong_is_raised(self):
        """It is no trouble that passes."""
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
def test_what_cannot_be_meant_is_refused_at_construction(options, words):
    """In a sentence."""
    with pytest.raises(Exception, match=words):
        RemoteRubric(**{"url": "http://127.0.0.1:8000", **options})
