"""The seven statements of the design, and what a rubric does with bad answers."""

import asyncio
import logging
import math
import pickle

import pytest

from assay import Criterion, GradingError, PerCriterionGrader, Rollout, Rubric, RubricError, Score
from assay.testing import FakeModel, make_rollout, make_state


def exact(completion, answer):
    return completion == answer


def judged_by(answer="MET"):
    return PerCriterionGrader(generate_fn=FakeModel(answer))


def test_anything_that_asks_a_question_is_a_criterion():
    """Functions, criteria, mappings and rubrics mix in one list, and weights apply in order."""
    inner = Rubric([exact], name="inner")
    rubric = Rubric(
        [exact, Criterion(requirement="Is kind", weight=3), {"requirement": "Is short"}, inner],
        weights=[0.5, None, 2, 0],
    )
    assert [c.name for c in rubric.criteria] == ["exact", "is_kind", "is_short", "inner"]
    assert [c.weight for c in rubric.criteria] == [0.5, 3.0, 2.0, 0.0]


@pytest.mark.parametrize("both", [{}, {"check": exact, "requirement": "Is kind"}])
def test_a_criterion_is_answered_in_exactly_one_way(both):
    """Construction says so."""
    with pytest.raises(ValueError, match="a check or a requirement"):
        Criterion(**both)


def test_binary_is_the_smallest_scale():
    """A verdict is worth its rank between 0 and 1."""
    levels = Criterion(requirement="Depth", choices=["poor", "fair", "good"])
    assert [levels.values[c] for c in levels.choices] == [0.0, 0.5, 1.0]
    assert Criterion(requirement="Is kind").choices == ("UNMET", "MET")


BAD_RESULTS = [math.nan, math.inf, -math.inf, None, "0.5", [1.0], {}, object(), 1j, Score()]


@pytest.mark.parametrize("result", BAD_RESULTS, ids=lambda result: type(result).__name__)
async def test_what_is_no_finite_number_is_an_error_and_never_zero(result):
    """The line has no value, the others count, and the rollout is unscored."""
    rubric = Rubric([lambda: result, lambda: 0.5])
    [report] = await rubric.score([make_rollout()])
    bad, good = report.report
    assert bad.value is None
    assert bad.error
    assert good.value == 0.5
    assert (report.raw_score, report.score, report.partial_reward) == (None, None, 0.5)
    assert report.coverage == 0.5
    assert not report.scored


async def test_a_metric_that_is_nan_does_not_touch_the_reward():
    """Zero times NaN is NaN in a peer; here it is an error on a line that does not count."""
    rubric = Rubric([lambda: 1.0])
    rubric.add_metric(lambda: math.nan)
    state = make_state()
    report = await rubric.score_rollout(state)
    assert state["reward"] == 1.0
    assert report.scored
    assert list(state["errors"]) == ["check_2"]


async def test_numbers_of_other_kinds_are_taken():
    """Booleans set a verdict; integers, fractions and the like are numbers."""
    from decimal import Decimal
    from fractions import Fraction

    rubric = Rubric([lambda: True, lambda: 2, lambda: Fraction(1, 2), lambda: Decimal("0.25")])
    [report] = await rubric.score([make_rollout()])
    assert [line.value for line in report.report] == [1.0, 2.0, 0.5, 0.25]
    assert [line.verdict for line in report.report] == ["MET", None, None, None]


async def test_a_check_may_return_a_score_or_a_choice():
    """A reason travels with the number, and a choice on offer is worth its rank."""
    rubric = Rubric(
        [
            lambda: Score(0.5, reason="two of four"),
            Criterion(check=lambda: "fair", choices=["poor", "fair", "good"]),
            lambda: Score.not_applicable("no table in it"),
        ]
    )
    [report] = await rubric.score([make_rollout()])
    assert [line.value for line in report.report] == [0.5, 0.5, None]
    assert report.report[0].reason == "two of four"
    assert report.report[2].verdict == "N/A"
    assert report.scored
    assert report.score == 0.5


async def test_a_check_that_raises_leaves_a_line_in_report_state_and_log(caplog):
    """Type, message and criterion are in all three places; the reward is None."""

    def broken(completion):
        raise KeyError("no such field")

    rubric = Rubric([broken, exact], weights=[1.0, 2.0])
    states = [make_state() | {"completion": "4"} for _ in range(3)]
    with caplog.at_level(logging.ERROR, logger="assay"):
        reports = await rubric.score_group(states)
    assert reports[0].errors == {"broken": "KeyError: 'no such field'"}
    assert states[0]["errors"] == {"broken": "KeyError: 'no such field'"}
    assert (states[0]["reward"], states[0]["partial_reward"]) == (None, 2.0)
    assert states[0]["metrics"] == {"exact": 1.0}
    assert states[0]["advantage"] is None
    assert len(caplog.records) == 1
    assert all(part in caplog.text for part in ("'broken'", "3 of 3", "no such field"))


async def test_on_error_raise_raises_the_original():
    """For tests, and for those who would rather stop."""

    def broken(completion):
        raise KeyError("no such field")

    async def broken_later(completion):
        raise KeyError("no such field")

    def broken_group(completions):
        raise KeyError("no such field")

    for check in (broken, broken_later, broken_group):
        with pytest.raises(KeyError):
            await Rubric([check], on_error="raise").score_group([make_state()])
    with pytest.raises(RubricError, match="nan"):
        await Rubric([lambda: math.nan], on_error="raise").score_group([make_state()])


async def test_a_check_that_raises_stop_iteration_does_not_shift_its_neighbours():
    """The results after it stay with their own rollouts."""

    def odd(completion):
        if completion == "b":
            raise StopIteration
        return float(ord(completion))

    [a, b, c] = await Rubric([odd]).score([make_rollout(t) for t in "abc"])
    assert (a.raw_score, b.scored, c.raw_score) == (97.0, False, 99.0)


@pytest.mark.parametrize(
    "values", [[1.0], [1.0, 2.0, 3.0], 1.0, "ab", None], ids=lambda values: repr(values)
)
async def test_a_group_result_of_the_wrong_size_is_an_error_for_all(values):
    """Nobody can tell whose number is missing."""

    def group(completions):
        return values

    states = [make_state("a"), make_state("b")]
    await Rubric([group]).score_group(states)
    assert all("2" in state["errors"]["group"] for state in states)
    assert [(state["reward"], state["advantage"]) for state in states] == [(None, None)] * 2


async def test_a_bad_number_in_a_group_result_is_an_error_for_one():
    """The others keep theirs."""

    def group(completions):
        return [1.0, math.nan, 3]

    states = [make_state() for _ in range(3)]
    await Rubric([group]).score_group(states)
    assert [state["advantage"] for state in states] == [-1.0, None, 1.0]


async def test_score_writes_nothing():
    """Only the state doors write."""
    state = {"seen": 1}
    await Rubric([exact]).score([Rollout(completion="4", answer="4", state=state)])
    assert state == {"seen": 1}


async def test_scoring_twice_gives_the_same_numbers_and_times():
    """Outputs are replaced, not added to, and the total counts the last scoring once."""
    rubric = Rubric([lambda completion: 0.5])
    state = make_state(timing={"generation_ms": 100.0, "scoring_ms": 0.0, "total_ms": 100.0})
    await rubric.score_rollout(state)
    first = dict(state["metrics"])
    await rubric.score_rollout(state)
    assert state["metrics"] == first
    assert state["timing"]["total_ms"] == pytest.approx(100.0 + state["timing"]["scoring_ms"])


async def test_stale_errors_are_cleared():
    """A state that is scored again without errors shows none."""
    outcome = [ValueError("no")]

    def check():
        if outcome:
            raise outcome.pop()
        return 1.0

    state = make_state()
    rubric = Rubric([check])
    await rubric.score_rollout(state)
    assert state["errors"]
    await rubric.score_rollout(state)
    assert not state["errors"]


async def test_steps_without_a_reward_get_the_rollouts():
    """Steps that have their own keep it."""
    states = [
        make_state(text, trajectory=[{"reward": None, "advantage": None}, {"reward": 9.0}])
        for text in ("a", "abc")
    ]
    await Rubric([lambda completion: len(completion[-1]["content"])]).score_group(states)
    assert states[0]["trajectory"] == [
        {"reward": 1.0, "advantage": -1.0},
        {"reward": 9.0, "advantage": -1.0},
    ]


async def test_states_need_no_timing_and_no_trajectory():
    """A plain dict with a completion is enough."""
    state = {"completion": "4", "answer": "4"}
    await Rubric([exact]).score_rollout(state)
    assert state["reward"] == 1.0
    assert state["timing"]["scoring_ms"] >= 0


async def test_an_empty_group_is_fine_and_an_empty_rubric_gives_no_reward_in_a_group():
    """Nothing to score is no error for `score_group`."""
    assert list(await Rubric([exact]).score_group([])) == []
    state = make_state()
    [report] = await Rubric([]).score_group([state])
    assert (state["reward"], state["metrics"]) == (None, {})
    assert report.score is None


def test_the_callers_lists_are_never_changed():
    """Adding to a rubric does not reach into what it was built from."""
    funcs, weights = [exact], [1.0]
    rubric = Rubric(funcs, weights)
    rubric.add_reward_func(exact)
    rubric.funcs.append(exact)
    assert (len(funcs), len(weights), len(rubric.funcs)) == (1, 1, 2)


def test_names_are_resolved_once_and_never_twice_the_same():
    """Numbered when equal; a lambda goes by its place."""
    rubric = Rubric([exact, exact, lambda completion: 1.0])
    assert rubric.get_reward_func_names() == ["exact", "exact_2", "check_3"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"funcs": exact}, "exact"),
        ({"funcs": "exact"}, "exact"),
        ({"funcs": [42]}, "42"),
        ({"funcs": [exact], "weights": [math.nan]}, "finite number"),
        ({"funcs": [exact], "weights": [math.inf]}, "finite number"),
        ({"funcs": [exact], "on_error": "ignore"}, "'ignore'"),
        ({"funcs": [exact], "aggregation": "median"}, "'median'"),
        ({"funcs": [{"requirement": " "}]}, "requirement"),
        ({"funcs": [{"requirement": "x", "choices": ["a", "A"]}]}, "choices"),
        ({"funcs": [{"requirement": "x", "points": 3}]}, "points"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_value(arguments, words):
    """Before anything is scored or paid for."""
    with pytest.raises(ValueError, match=words):
        Rubric(**arguments)


async def test_a_judged_criterion_without_a_grader_is_refused():
    """The sentence names the criterion and what to pass."""
    rubric = Rubric([exact, Criterion(requirement="Cites a source")])
    with pytest.raises(RubricError, match=r"Cites a source.*judge="):
        await rubric.grade("x")


async def test_grade_raises_with_the_partial_report_when_a_line_is_missing():
    """A number over half of the criteria would be a wrong number."""
    model = FakeModel(["MET", TimeoutError("no reply")])
    rubric = Rubric([{"requirement": "Is kind"}, {"requirement": "Is short"}])
    with pytest.raises(GradingError, match=r"1 of 2.*is_short") as caught:
        await rubric.grade("x", judge=PerCriterionGrader(generate_fn=model))
    report = caught.value.report
    assert [line.verdict for line in report.report] == ["MET", None]
    assert report.errors == {"is_short": "TimeoutError: no reply"}


async def test_code_and_model_answer_one_rubric():
    """Facts by code, judgement by model, one sum: 1.0 + 0.5 · 1."""
    rubric = Rubric(
        [exact, Criterion(requirement="Explains each step", weight=0.5)],
        judge=judged_by("MET"),
    )
    report = await rubric.grade("4", answer="4")
    assert report.raw_score == 1.5
    assert report.score == 1.0
    state = {"prompt": "2+2?", "completion": "5", "answer": "4"}
    await rubric.score_rollout(state)
    assert state["reward"] == 0.5
    assert state["metrics"] == {"exact": 0.0, "explains_each_step": 1.0}


def test_sync_doors_work_without_and_within_a_loop():
    """A notebook has a loop running already."""
    rubric = Rubric([exact])
    assert rubric.grade_sync("4", answer="4").score == 1.0

    async def notebook():
        return rubric.grade_sync("4", answer="4").score, rubric.score_rollouts(["q"], ["4"], ["4"])

    assert asyncio.run(notebook()) == (1.0, {"exact": [1.0], "reward": [1.0]})


def test_columns_of_different_length_are_refused():
    """Zipping them would score some and drop others."""
    with pytest.raises(ValueError, match=r"2 prompts.*1 completions"):
        Rubric([exact]).score_rollouts(["a", "b"], ["a"], ["a", "b"], [{}, {}])


async def test_what_is_no_state_is_refused():
    """With the value."""
    with pytest.raises(TypeError, match="'text'"):
        await Rubric([exact]).score_group([make_state(), "text"])


async def test_rollouts_run_side_by_side_and_keep_their_order():
    """Each waits for the next one's event, which only works side by side."""
    events = [asyncio.Event() for _ in range(50)]

    async def wait_for_next(place):
        if place + 1 < len(events):
            await events[place + 1].wait()
        events[place].set()
        return float(place)

    rubric = Rubric([wait_for_next])
    states = [make_state(place=place) for place in range(50)]
    await asyncio.wait_for(rubric.score_group(states), timeout=20)
    assert [state["reward"] for state in states] == [float(place) for place in range(50)]


async def test_a_slow_check_of_one_rollout_holds_up_no_other():
    """The first check of one rollout waits for the last check of the other."""
    done = asyncio.Event()

    async def first(place):
        if place == 0:
            await done.wait()
        return 1.0

    async def last(place):
        if place == 1:
            done.set()
        return 2.0

    states = [make_state(place=place) for place in range(2)]
    await asyncio.wait_for(Rubric([first, last]).score_group(states), timeout=20)
    assert [state["reward"] for state in states] == [3.0, 3.0]


async def test_a_cancelled_task_stops_its_checks_and_writes_nothing():
    """Cancelling is not an error line."""
    started = asyncio.Event()
    stopped = []

    async def slow(place):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(place)
            raise

    states = [make_state(place=place) for place in range(4)]
    task = asyncio.create_task(Rubric([slow]).score_group(states))
    await started.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(stopped) == [0, 1, 2, 3]
    assert all("reward" not in state for state in states)


def test_a_rubric_and_its_reports_can_be_pickled():
    """To be sent to another process."""
    rubric = pickle.loads(pickle.dumps(Rubric([exact], [0.5])))
    report = rubric.grade_sync("4", answer="4")
    assert pickle.loads(pickle.dumps(report)) == report
    lambdas = Rubric([lambda: 1.0]).grade_sync("x")
    assert pickle.loads(pickle.dumps(lambdas)) == lambdas


async def test_huge_texts_and_lone_surrogates_are_scored():
    """10 MB, and what cannot be encoded."""
    rubric = Rubric([lambda completion: float(len(completion))])
    assert rubric.score_rollout_sync(completion="x" * 10_000_000)["reward"] == 1e7
    assert rubric.score_rollout_sync(completion="\ud800")["reward"] == 1.0
    judged = Rubric([{"requirement": "Is long"}], judge=judged_by())
    assert (await judged.grade("x" * 10_000_000)).score == 1.0
    assert (await judged.grade("a \ud800")).score == 1.0


@pytest.mark.slow
async def test_twenty_thousand_criteria():
    """Slow is fine, wrong is not."""
    rubric = Rubric([Criterion(check=exact, name=f"c{n}") for n in range(20_000)])
    report = await rubric.grade("4", answer="4")
    assert (report.raw_score, report.score, report.asked) == (20_000.0, 1.0, 20_000)


def test_a_mapping_is_read_as_a_rubric_file_would_have_it():
    """Built-in checks by name, nested rubrics, and the same sentences for what is wrong."""
    rubric = Rubric(
        [
            {"check": "json_valid"},
            {"check": {"max_words": 1}, "weight": 0},
            {"rubric": [{"check": {"contains": "1"}}], "weight": 0.5, "name": "inner"},
        ]
    )
    assert rubric.score_rollout_sync(completion="[1]") == {
        "json_valid": 1.0,
        "max_words": 1.0,
        "inner": 1.0,
        "reward": 1.5,
    }
    with pytest.raises(RubricError, match=r"'wieght'.*'weight'"):
        Rubric([{"requirement": "Is kind", "wieght": 2}])


async def test_a_check_that_says_no_gets_the_worst_choice_on_offer():
    """With a reason or without one."""
    rubric = Rubric(
        [
            Criterion(check=lambda: False, choices=["bad", "fair", "good"]),
            Criterion(check=lambda: Score(True, "all of it"), choices=["bad", "fair", "good"]),
        ]
    )
    [report] = await rubric.score([make_rollout()])
    assert [line.verdict for line in report.report] == ["bad", "good"]


def test_a_rubric_shows_its_criteria_and_weights():
    """The first eight of them, after its name."""
    shown = repr(Rubric([exact, {"requirement": "Is kind", "weight": -2}]))
    assert all(part in shown for part in ("exact", "+1", "is_kind", "-2"))
    many = repr(Rubric([Criterion(check=exact, name=f"c{n}") for n in range(10)], name="style"))
    assert "style" in many
    assert all(f"c{n}" in many for n in range(8))
    assert not any(f"c{n}" in many for n in (8, 9))
    assert "2 more" in many


def test_an_empty_rubric_is_a_rubric():
    """It is true in a condition, and an option that is not on offer is refused."""
    assert len(Rubric([])) == 0
    assert Rubric([])
    with pytest.raises(RubricError, match=r"'ignore'.*'record'.*'raise'"):
        Rubric([], on_error="ignore")


def test_a_rubric_lists_its_functions_and_weights():
    """Those that code answers, in order; what is added weighs 1, and a metric 0."""
    rubric = Rubric([exact, {"requirement": "Is kind"}], weights=[0.5, 3])
    checks = [lambda: 1.0, lambda: 2.0]
    rubric.add_reward_func(checks[0])
    rubric.add_metric(checks[1])
    assert rubric.get_reward_funcs() == rubric.reward_funcs == [exact, *checks]
    assert rubric.get_reward_weights() == rubric.reward_weights == [0.5, 1.0, 0.0]


async def test_a_nested_rubric_of_which_nothing_applies_does_not_apply():
    """Its line leaves both sums; one in which nothing counts has no score to give."""
    inner = Rubric([lambda: Score.not_applicable()], name="inner")
    [report] = await Rubric([inner, lambda: 0.5]).score([make_rollout()])
    assert (report.report[0].verdict, report.score) == ("N/A", 0.5)
    assert report.report[0].reason
    uncounted = Rubric([lambda: 1.0], weights=[0], name="inner")
    [report] = await Rubric([uncounted]).score([make_rollout()])
    assert report.report[0].error.startswith("GradingError: ")


async def test_a_nested_rubric_that_fails_on_one_rollout_answers_for_the_others():
    """They are asked again one by one, so that only the rollout at fault has no answer."""

    class Brittle:
        name = "brittle"

        async def score(self, rollouts):
            if any(rollout.completion == "b" for rollout in rollouts):
                raise OSError("gone")
            return await Rubric([lambda: 0.5]).score(rollouts)

    reports = await Rubric([Brittle()]).score([make_rollout(text) for text in "abc"])
    assert [report.raw_score for report in reports] == [0.5, None, 0.5]
    assert reports[1].errors == {"brittle": "OSError: gone"}


async def test_a_scorer_must_give_a_report_a_rollout():
    """One too few is an error of the line."""

    class Short:
        name = "short"

        async def score(self, rollouts):
            return []

    [report] = await Rubric([Short()]).score([make_rollout()])
    assert list(report.errors) == ["short"]
    assert not report.scored


async def test_a_judge_that_raises_leaves_its_lines_without_an_answer():
    """Each of them says why, and what code answers is kept."""
    rubric = Rubric(
        [exact, {"requirement": "Is kind"}, {"requirement": "Is short"}],
        judge=judged_by(ConnectionError("down")),
    )
    [report] = await rubric.score([make_rollout("4", answer="4")])
    assert report.metrics == {"exact": 1.0}
    assert set(report.errors) == {"is_kind", "is_short"}
    assert all("down" in error for error in report.errors.values())


async def test_more_than_one_rollout_shares_one_line_in_the_log(caplog):
    """A criterion that fails for some is counted: 2 of 3, with the first message."""

    def odd(completion):
        if completion != "b":
            raise KeyError(completion)
        return 1.0

    with caplog.at_level(logging.ERROR, logger="assay"):
        await Rubric([odd]).score([make_rollout(text) for text in "abc"])
    [message] = [record.getMessage() for record in caplog.records]
    assert all(part in message for part in ("'odd'", "2 of 3", "KeyError: 'a'"))


def test_a_grading_error_names_three_lines_and_counts_the_rest():
    """The partial report comes with it."""
    rubric = Rubric([Criterion(check=lambda: None, name=f"c{n}") for n in range(5)] + [lambda: 0.5])
    with pytest.raises(GradingError, match=r"5 of 6.*c0: .*c2: .*2 more") as caught:
        rubric.grade_sync("x")
    assert caught.value.report.partial_reward == 0.5
    assert "c3" not in str(caught.value)


async def test_batches_larger_than_a_chunk_are_scored_in_order():
    """Of plain checks, and of functions for many at once."""

    def lengths(completions) -> list[float]:
        return [float(len(text)) for text in completions]

    lengths.independent = True
    texts = ["x" * (place % 5) for place in range(1100)]
    reports = await Rubric([lengths, lambda completion: float(len(completion))]).score(
        [make_rollout(t) for t in texts]
    )
    assert [report.raw_score for report in reports] == [2.0 * len(text) for text in texts]


def test_a_rubric_as_a_criterion_weighs_one():
    """And goes by its own name, unless told otherwise."""
    rubric = Rubric([exact], name="inner")
    assert (rubric.as_criterion().weight, rubric.as_criterion().name) == (1.0, "inner")
    named = rubric.as_criterion(2, "other")
    assert (named.weight, named.name) == (2.0, "other")
    assert Rubric([exact]).as_criterion().name == "rubric"


def test_a_rollout_gives_its_text():
    """The last that the assistant said."""
    rollout = Rollout(
        prompt=[{"role": "user", "content": "2+2?"}],
        completion=[{"role": "assistant", "content": "4"}],
        answer="4",
    )
    assert rollout.text == "4"


def test_only_what_a_model_answers_is_what_a_model_said():
    """A rubric that asks a model has its sum as `llm_raw_score`, and one of code alone has none."""
    judged = Rubric([{"requirement": "Is kind", "weight": 2}], judge=judged_by()).grade_sync("x")
    assert (judged.raw_score, judged.llm_raw_score) == (2.0, 2.0)
    assert Rubric([lambda: 1.0]).grade_sync("x").llm_raw_score is None


async def test_a_text_that_is_no_choice_on_offer_is_no_number():
    """The error shows the text, and not a verdict."""
    [report] = await Rubric([lambda: "0.5"]).score([make_rollout()])
    assert list(report.errors) == ["check_1"]
    assert "'0.5'" in report.errors["check_1"]
    assert report.lines[0].verdict is None


def test_a_rubric_of_built_in_checks_goes_through_pickle():
    """Worker processes get it that way where no other pickler is installed; each check reads one field."""
    rubric = pickle.loads(
        pickle.dumps(Rubric.from_dict([{"check": {"max_words": 2}}, {"check": "exact_match"}]))
    )
    assert rubric.score_rollout_sync(completion="four", answer="four")["reward"] == 2.0


@pytest.mark.parametrize("count", [2, 16, 600])
async def test_what_methods_keep_in_the_rubric_is_of_the_same_rollout(count):
    """Each rollout is asked everything before the next one is, so the second method sees what the first one has read."""

    class Sums(Rubric):
        def read(self, completion):
            self.answer = completion.strip()
            return 0.0

        def right(self, answer):
            return self.answer == answer

    rubric = Sums()
    rubric.add_reward_func(rubric.read)
    rubric.add_reward_func(rubric.right)
    states = [{"completion": f" {number} ", "answer": str(number)} for number in range(count)]
    await rubric.score_group(states)
    assert [state["reward"] for state in states] == [1.0] * count
