"""`Criterion(isolate=True)`: a check that can neither hang nor crash whoever scores."""

import asyncio
import re
import threading

import pytest
from pydantic import ValidationError

from assay import Criterion, Rollout, Rubric, RubricError, RubricFileError, Score, XMLParser
from assay.checks import BUILTIN, Contains, ExactMatch, JsonSchema, Regex
from assay.testing import make_state


def behaves(completion):
    """Does as the completion says."""
    import os

    if completion == "hang":
        while True:
            pass
    if completion == "crash":
        os.abort()
    if completion == "raise":
        raise ValueError("no such field")
    if completion == "hoard":
        return len(b"x" * (2 << 30))
    if completion == "explain":
        return Score(0.25, reason="a quarter")
    return len(completion)


def isolated(check, **fields):
    return Criterion(check=check, isolate=True, **fields)


class TestAnswers:
    @pytest.mark.slow
    async def test_what_goes_wrong_is_an_error_line_and_never_a_zero(self):
        """Hanging, crashing, raising, hoarding; all other rollouts are scored."""
        rubric = Rubric([isolated(behaves, timeout=0.2)])
        texts = ["four", "hang", "crash", "raise", "hoard", "explain", "fives"]
        reports = await rubric.score([Rollout(completion=text) for text in texts])
        assert [report.report[0].value for report in reports] == [
            4,
            None,
            None,
            None,
            None,
            0.25,
            5,
        ]
        assert [report.errors.get("behaves", "") for report in reports] == [
            "",
            "TimeoutError: still working after 0.2 s, and stopped",
            "RuntimeError: the worker died of SIGABRT",
            "ValueError: no such field",
            "MemoryError: it needed more than the 1,073,741,824 bytes that a worker may take",
            "",
            "",
        ]
        assert [report.scored for report in reports] == [bool(t not in texts[1:5]) for t in texts]
        assert reports[5].report[0].reason == "a quarter"

    async def test_an_error_can_be_raised_instead(self):
        """As of any other check."""
        rubric = Rubric([isolated(behaves)], on_error="raise")
        with pytest.raises(RubricError, match="'behaves' has no answer: ValueError: no such field"):
            await rubric.score([Rollout(completion="raise")])

    def test_it_gives_what_it_gives_here(self):
        """Bools, verdicts, numbers; also without a loop."""
        checks = [lambda: True, lambda: "MET", lambda: 0.5, lambda completion, answer: answer]
        here = Rubric([*checks]).grade_sync("x", answer=3)
        there = Rubric([*map(isolated, checks)]).grade_sync("x", answer=3)
        assert here.report == there.report

    async def test_it_goes_by_the_door_for_states(self):
        """Which writes what it found."""
        state = make_state(completion="four")
        await Rubric([isolated(behaves)]).score_rollout(state)
        assert (state["reward"], state["metrics"]) == (1, {"behaves": 1})  # one message

    async def test_it_gets_the_arguments_it_names(self):
        """By name, by position, with defaults, all of them; async too."""

        async def later(completion, info, colour="red", *, answer):
            return f"{completion} {info} {colour} {answer}" == "c {'k': 1} blue a"

        def first(completion, /):
            return completion == "c"

        def everything(**fields):
            return {"completion", "answer", "state", "colour"} <= fields.keys()

        rubric = Rubric([isolated(later), isolated(first), isolated(everything)])
        rollout = Rollout(completion="c", answer="a", info={"k": 1}, columns={"colour": "blue"})
        [report] = await rubric.score([rollout])
        assert report.metrics == {"later": 1.0, "first": 1.0, "everything": 1.0}

    async def test_what_it_writes_into_the_state_stays_in_the_worker(self):
        """A later check sees what there was before; a plain one is seen by all."""

        def writes(state):
            state["left"] = True
            return 1.0

        def reads(state):
            return "left" in state

        rubric = Rubric([isolated(writes), Criterion(check=reads), isolated(reads, name="there")])
        [report] = await rubric.score([Rollout(completion="x")])
        assert report.metrics == {"writes": 1.0, "reads": 0.0, "there": 0.0}
        rubric = Rubric([Criterion(check=writes), isolated(reads)])
        [report] = await rubric.score([Rollout(completion="x")])
        assert report.metrics == {"writes": 1.0, "reads": 1.0}

    async def test_an_argument_that_cannot_be_sent_is_an_error_line(self):
        """Which names it; rollouts without it are scored."""
        rubric = Rubric([isolated(lambda state: len(state), name="size")])
        states = [{"lock": threading.Lock()}, {"a": 1}]
        first, second = await rubric.score([Rollout(state=state) for state in states])
        assert "argument 'state' of <lambda>" in first.errors["size"]
        assert "cannot be sent to a worker" in first.errors["size"]
        assert second.metrics == {"size": 1.0}

    async def test_it_waits_for_its_condition(self):
        """As any other check does."""
        rubric = Rubric([Contains("x"), isolated(behaves, when="contains", timeout=0.2)])
        there, not_there = await rubric.score([Rollout(completion=c) for c in ("x", "hang")])
        assert there.metrics == {"contains": 1.0, "behaves": 1.0}
        assert not_there.report[1].verdict == "N/A"

    async def test_a_thousand_rollouts(self):
        """Side by side, bounded by the queue."""
        rubric = Rubric([isolated(behaves)])
        reports = await rubric.score([Rollout(completion="x" * n) for n in range(1000)])
        assert [report.raw_score for report in reports] == [*range(1000)]


class TestPatterns:
    HOSTILE = "a" * 60 + "b"

    async def test_a_hostile_pattern_is_stopped_while_the_loop_goes_on(self):
        """`re` holds the interpreter until it is done, which is never."""
        beats = 0

        async def beat():
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.005)

        def ends_in_a(completion):
            return re.search("(a+)+$", completion) is not None

        rubric = Rubric([isolated(ends_in_a, timeout=0.3)])
        heart = asyncio.create_task(beat())
        bad, good = await rubric.score([Rollout(completion=c) for c in (self.HOSTILE, "aa")])
        heart.cancel()
        assert bad.errors["ends_in_a"].startswith("TimeoutError: still working after 0.3 s")
        assert good.score == 1.0
        assert beats > 5

    @pytest.mark.parametrize(
        "check",
        [
            Regex("(a+)+$", timeout_seconds=1000),
            JsonSchema({"pattern": "(a+)+$"}),
            JsonSchema({"patternProperties": {"(a+)+$": False}}),
        ],
        ids=["regex", "pattern", "patternProperties"],
    )
    async def test_the_checks_that_search_can_be_isolated(self, check):
        """What is stopped by the pool or by the search itself has no answer."""
        hostile = "a" * 100_000 + "b"
        text = hostile if isinstance(check, Regex) else f'{{"{hostile}": "{hostile}"}}'
        if isinstance(check, JsonSchema) and "pattern" in check.schema:
            text = f'"{hostile}"'
        [report] = await Rubric([isolated(check, timeout=0.3)]).score([Rollout(completion=text)])
        assert report.report[0].error.startswith("TimeoutError: still working after 0.3 s")

    @pytest.mark.parametrize("name", sorted(BUILTIN.keys() - {"math_equal"}))
    def test_every_built_in_check_can_be_isolated(self, name):
        """They are plain values. `math_equal` sees to that itself."""
        specs = {
            "contains": {"contains": "4"},
            "regex": {"regex": "4"},
            "one_of": {"one_of": ["4"]},
            "max_words": {"max_words": 3},
            "min_words": {"min_words": 1},
            "json_schema": {"json_schema": {"schema": {}}},
            "called": {"called": "a"},
            "final_state": {"final_state": {"at": "completion", "equals": "4"}},
            "trajectory": {"trajectory": ["a"]},
        }
        spec = {"check": specs.get(name, name)}
        here = Rubric.from_dict([spec]).grade_sync("4", answer="4")
        there = Rubric.from_dict([spec | {"isolate": True, "timeout": 60}]).grade_sync(
            "4", answer="4"
        )
        assert here.report == there.report

    async def test_with_a_parser(self):
        """Which goes along."""
        rubric = Rubric([isolated(ExactMatch())], parser=XMLParser(["answer"]))
        [report] = await rubric.score([Rollout(completion="<answer>4</answer>", answer="4")])
        assert report.score == 1.0


class TestConstruction:
    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"requirement": "Is kind", "isolate": True}, "a model answers"),
            ({"check": Rubric([behaves]), "isolate": True}, "the check is a whole rubric"),
            (
                {"check": len, "timeout": 3},
                "timeout is 3, but only an isolated check can be stopped",
            ),
            ({"check": len, "isolate": True, "timeout": 0}, "greater than 0"),
            ({"check": len, "isolate": True, "timeout": -1}, "greater than 0"),
            ({"check": len, "isolate": True, "timeout": float("inf")}, "finite"),
            ({"check": len, "isolate": True, "timeout": "soon"}, "valid number"),
        ],
    )
    def test_what_cannot_be_isolated_is_refused(self, fields, words):
        """And so is a timeout that nobody keeps."""
        with pytest.raises(ValidationError, match=words):
            Criterion(**fields)

    def test_a_group_function_is_refused(self):
        """It sees the whole batch."""
        with pytest.raises(RubricError, match="whole group"):
            Rubric([isolated(lambda completions: [1.0])])

    def test_a_check_that_cannot_be_sent_is_refused(self):
        """When the rubric is made, with the reason."""
        lock = threading.Lock()
        with pytest.raises(RubricError, match=r"'held' cannot be isolated.*lock"):
            Rubric([isolated(lambda completion: lock, name="held")])

    def test_nothing_is_started_before_it_is_used(self, run_script):
        """No thread, no process."""
        out = run_script(
            "import threading\nfrom assay import Criterion, Rubric\n"
            "rubric = Rubric([Criterion(check=lambda completion: 1.0, isolate=True)])\n"
            "print(threading.active_count())\n"
            "rubric.grade_sync('x')\n"
            "print(threading.active_count())\n"
        )
        assert out == ["1", "2"]


class TestFiles:
    TEXT = """\
criteria:
- check:
    regex: a+
  isolate: true
  timeout: 2.0
- check: json_valid
"""

    def test_there_and_back(self):
        """What is as usual is left out."""
        rubric = Rubric.from_yaml(self.TEXT)
        assert [(c.isolate, c.timeout) for c in rubric.criteria] == [(True, 2.0), (False, 5.0)]
        assert rubric.to_yaml() == self.TEXT

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("isolate: 1", "isolate is 1: give true or false"),
            ("timeout: true", "timeout is True: give a number"),
            ("timeout: 2", "timeout is 2, but only an isolated check can be stopped"),
            ("{isolate: true, timeout: 0}", "timeout is 0: give more than 0"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_line(self, line, words):
        """As of any other field."""
        fields = line.strip("{}").replace(", ", "\n  ")
        with pytest.raises(RubricFileError, match=words):
            Rubric.from_yaml(f"- check: json_valid\n  {fields}\n")

    def test_it_is_part_of_what_a_criterion_says_and_not_of_the_question(self):
        """A verdict holds wherever it was found."""
        here, there = Criterion(check=Regex("a")), isolated(Regex("a"))
        assert here.content_hash != there.content_hash
        assert here.question_hash == there.question_hash
