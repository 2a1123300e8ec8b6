"""Criteria about steps: each turn or tool call has a value, which reaches reports, disks, states and trainers."""

import asyncio
import json
import re

import pytest

from assay import (
    Criterion,
    EvaluationReport,
    JudgeError,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    Rollout,
    Rubric,
    RubricError,
    RubricFileError,
    RubricGroup,
    Score,
)
from assay.checks import Called, MaxWords
from assay.graders import RubricAsJudgeGrader
from assay.integrations.step import Step
from assay.probe.trials import targets_of
from assay.runs import Run, rescore, score_rows
from assay.testing import FakeModel, make_state


def call(name, number=1, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


PROMPT = [{"role": "user", "content": "Refund order 17, and tell me when."}]
SAID = [
    {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [call("search", 1, order=17), call("clock", 2)],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "order 17, 12 dollars"},
    {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
    {"role": "assistant", "content": None, "tool_calls": [call("refund", 3, order=17, amount=20)]},
    {"role": "tool", "tool_call_id": "call_3", "content": "Error: more than was paid"},
    {"role": "assistant", "content": "I refunded it at noon."},
]
TURNS = ["m2", "m5", "m7"]
CALLS = ["m2.call1", "m2.call2", "m5.call1"]


def state(**fields):
    return make_state(SAID, prompt=PROMPT, **fields)


async def line_of(criterion, judge=None):
    grader = None if judge is None else PerCriterionGrader(judge)
    [report] = await Rubric([criterion], judge=grader).score([state()])
    return report.report[0], report


def is_short(step):
    return len(step.text) < 20


def is_quiet(step):
    return {"I look it up.": 0.5, "": 1.0}.get(step.text, 0.0)


@pytest.mark.parametrize(
    ("fields", "value", "verdict", "reason"),
    [
        ({"combine": "all"}, 0.0, None, "[m7]"),
        ({"combine": "any"}, 1.0, None, "[m5]"),
        ({"combine": "mean"}, 0.5, None, "[m2]"),
        ({"combine": "first_failure"}, 0.0, None, "[m2]"),
        ({"combine": "first_failure", "pass_at": 0.5}, 2 / 3, None, "[m7]"),
        ({"combine": "first_failure", "pass_at": 0.0}, 1.0, None, ""),
        ({"combine": "any", "weight": -1.0}, 1.0, None, "[m5]"),
        ({"combine": "first_failure", "weight": -1.0}, 2 / 3, None, "[m5]"),
        ({"combine": "first_failure", "weight": 0.0, "pass_at": 0.5}, 2 / 3, None, "[m7]"),
    ],
)
async def test_the_values_of_steps_come_to_one(fields, value, verdict, reason):
    """By the lowest, the highest, the mean, or the share before the first failure; a fault counts the other way."""
    line, _ = await line_of(Criterion(check=is_quiet, scope="step", **fields))
    assert (line.value, line.verdict, line.reason) == (pytest.approx(value), verdict, reason)
    assert line.steps == {"m2": 0.5, "m5": 1.0, "m7": 0.0}


async def test_a_check_sees_the_rollout_as_it_stood():
    """Up to the message of the step, with the step as a field; built-in, async and isolated checks alike."""
    seen = []

    async def looks(completion, step, answer, state):
        seen.append(
            (step.address, len(completion), step.name, step.result, answer, "trajectory" in state)
        )
        return step.name != "refund"

    line, _ = await line_of(Criterion(check=looks, scope="call", combine="mean"))
    assert seen == [
        ("m2.call1", 1, "search", "order 17, 12 dollars", "4", True),
        ("m2.call2", 1, "clock", "noon", "4", True),
        ("m5.call1", 4, "refund", "Error: more than was paid", "4", True),
    ]
    assert line.steps == dict(zip(CALLS, [1.0, 1.0, 0.0], strict=True))
    line, _ = await line_of(Criterion(check=MaxWords(4), scope="step"))
    assert (line.verdict, line.reason, line.steps) == (
        "UNMET",
        "[m7] 5 words, 4 allowed",
        {"m2": 1, "m5": 1, "m7": 0},
    )
    line, _ = await line_of(
        Criterion(check=Called("search"), scope="step", combine="mean", isolate=True, timeout=60)
    )
    assert list(line.steps.values()) == [1.0, 1.0, 1.0]
    nested = Rubric([MaxWords(4), lambda step: bool(step.text)])
    line, _ = await line_of(Criterion(check=nested, scope="step", combine="mean"))
    assert line.steps == {"m2": 1.0, "m5": 0.5, "m7": 0.5}


JUDGED = Criterion(requirement="Does nothing that was not asked for", scope="call", combine="mean")


def judge_by(words, **verdicts):
    """A judge that decides by the step that it is asked about."""

    def judge(system_prompt, user_prompt):
        asked = re.search(r"about one step of the conversation, ([\w.]+),", user_prompt)
        verdict = verdicts.get(asked[1].replace(".", "_") if asked else "whole", words)
        if isinstance(verdict, BaseException):
            raise verdict
        return {"explanation": f"At {asked and asked[1]}.", "criterion_status": verdict}

    return FakeModel(judge)


async def test_a_judge_is_asked_about_every_step():
    """With the whole conversation first and byte-equal, and the step named by its address after it."""
    model = judge_by("MET", m5_call1="UNMET")
    line, report = await line_of(JUDGED, model)
    assert line.steps == dict(zip(CALLS, [1.0, 1.0, 0.0], strict=True))
    assert (line.value, line.reason) == (pytest.approx(2 / 3), "[m5.call1] At m5.call1.")
    assert len(model.calls) == 3
    openings = {(system, user.partition("<criterion_type>")[0]) for system, user in model.calls}
    assert len(openings) == 1
    assert all(
        JUDGED.requirement in user and f"the conversation, {at}," in user
        for at, (_, user) in zip(CALLS, model.calls, strict=True)
    )
    assert '<part id="m5.call1">' in openings.pop()[1]
    assert "m5.call1: At m5.call1." in str(report)


async def test_all_criteria_go_to_the_grader_at_once():
    """Those about steps and those about the whole, in one call of a grader that asks all in one."""
    model = FakeModel(("MET", "MET", "MET", "UNMET"))
    outcome = Criterion(requirement="Refunds the order", weight=3)
    [report] = await Rubric([outcome, JUDGED], judge=PerCriterionOneShotGrader(model)).score(
        [state()]
    )
    assert len(model.calls) == 1
    assert [line.value for line in report.report] == [1.0, pytest.approx(2 / 3)]


async def test_a_step_without_an_answer_is_an_error():
    """And no zero: the line has no value, the rollout no reward, and neither has any of its steps."""
    line, report = await line_of(JUDGED, judge_by("MET", m5_call1=JudgeError("no reply")))
    assert line.value is None
    assert line.error == "JudgeError: about m5.call1: no reply"
    assert line.steps == dict(zip(CALLS, [1.0, 1.0, None], strict=True))
    assert report.raw_score is None
    assert report.step_rewards == dict.fromkeys(TURNS)

    def breaks(step):
        return 1 / (step.name != "clock")

    line, _ = await line_of(Criterion(check=breaks, scope="call"))
    assert line.error == "ZeroDivisionError: about m2.call2: division by zero"


async def test_a_rollout_without_steps_is_left_out():
    """As a step to which the question does not apply."""
    rubric = Rubric([Criterion(check=is_short, scope="call"), lambda completion: True])
    [report] = await rubric.score([{"prompt": "2 + 2?", "completion": "4"}])
    assert (report.report[0].verdict, report.report[0].reason) == (
        "N/A",
        "there is no call that it applies to",
    )
    assert report.raw_score == 1.0
    line, _ = await line_of(
        Criterion(check=lambda step: Score.not_applicable() if not step.text else 1.0, scope="step")
    )
    assert line.steps == {"m2": 1.0, "m5": None, "m7": 1.0}


@pytest.mark.parametrize(("combine", "value"), [("mean", 0.75), ("all", 0.5), ("any", 1.0)])
async def test_a_step_to_which_the_question_does_not_apply_is_left_out(combine, value):
    """m5 says nothing: it lowers no value, and its turn is paid what the rollout is paid."""
    answers = {"I look it up.": 0.5, "": Score.not_applicable()}
    criterion = Criterion(
        check=lambda step: answers.get(step.text, 1.0), name="quiet", scope="step", combine=combine
    )
    line, report = await line_of(criterion)
    assert (line.value, report.raw_score) == (value, value)
    assert paid(report) == [0.5, value, 1.0]


async def test_only_what_the_model_did_is_a_step():
    """Neither a turn of the assistant in the prompt, nor a message that holds nothing but reasoning."""
    prompt = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello, what can I do?"},
        {"role": "user", "content": "2 + 2?"},
    ]
    completion = [
        {"role": "assistant", "content": "", "reasoning_content": "They want a sum."},
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "4"},
    ]
    rubric = Rubric([Criterion(check=is_short, scope="step")])
    [report] = await rubric.score([{"prompt": prompt, "completion": completion}])
    assert (report.lines[0].steps, report.step_rewards) == ({"m6": 1.0}, {"m6": 1.0})


async def test_a_group_adds_up_turns_where_one_rubric_does_not_apply():
    """It adds nothing, as to the reward of the rollout; a rubric without steps adds its whole reward to every turn."""
    steps = Rubric([Criterion(check=is_quiet, scope="step", combine="mean")])
    idle = Rubric([lambda: Score.not_applicable()])
    whole = Rubric([lambda: 2.0])
    [report] = await RubricGroup([steps, idle, whole]).score([state()])
    assert (report.raw_score, paid(report)) == (2.5, [2.5, 3.0, 2.0])


async def test_a_reply_by_itself_is_one_step():
    """It is shown as it is, and so it is asked about as it is."""
    model = judge_by("MET")
    criterion = Criterion(requirement="Is right", scope="step")
    [report] = await Rubric([criterion], judge=PerCriterionGrader(model)).score(
        [Rollout("2 + 2?", "4")]
    )
    assert (report.score, report.report[0].steps, report.step_rewards) == (
        1.0,
        {"m2": 1.0},
        {"m2": 1.0},
    )
    assert "step" not in model.calls[0][1]


async def test_what_is_not_shown_is_not_asked_about():
    """An error that says so, and never a verdict on what the judge did not see."""
    rubric = Rubric([JUDGED], judge=PerCriterionGrader(FakeModel("MET")), shows="no_tools")
    [report] = await rubric.score([state()])
    [error] = report.errors.values()
    assert all(part in error for part in ("m2.call1", "not shown", "`shows`"))
    for scope in ("call", "step"):
        about = Criterion(requirement="It is polite", scope=scope)
        [report] = await Rubric(
            [about], judge=PerCriterionGrader(FakeModel("MET")), shows="last"
        ).score([state()])
        assert "which the judge is not shown" in str(report.errors)
    [report] = await Rubric([JUDGED], judge=RubricAsJudgeGrader(FakeModel(50))).score([state()])
    [error] = report.errors.values()
    assert "steps" in error
    with pytest.raises(JudgeError, match="each call"):
        await PerCriterionGrader(FakeModel("MET")).grade(SAID, [JUDGED])


def paid(report, weights=TURNS):
    return [report.step_rewards[turn] for turn in weights]


async def test_a_turn_is_paid_for_what_it_did():
    """Process and outcome in one rubric: its own values where it has some, else those of the rollout."""
    calls_well = Criterion(
        check=lambda step: step.name != "refund",
        name="calls_well",
        scope="call",
        combine="mean",
        weight=3,
    )
    rubric = Rubric(
        [
            Criterion(check=is_short, scope="step", combine="mean"),
            calls_well,
            Criterion(check=lambda completion: 0.5, weight=2),
        ]
    )
    [report] = await rubric.score([state()])
    assert report.raw_score == pytest.approx(2 / 3 + 3 * 2 / 3 + 1)
    assert paid(report) == pytest.approx([1 + 3 + 1, 1 + 0 + 1, 0 + 2 + 1])


async def test_every_aggregation_pays_turns_by_its_own_rule():
    """Vetoes too."""
    criterion = Criterion(check=is_short, scope="step", required=True)
    [report] = await Rubric([criterion, lambda completion: True], aggregation="all_pass").score(
        [state()]
    )
    assert (report.raw_score, paid(report)) == (0.0, [1.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("weight", "reason", "rewards"),
    [
        (4.0, "It pays too much [m5.call1] and says otherwise [m7].", [4.0, 2.0, 2.0]),
        (4.0, 'It pays too much [m5.call1: "20"].', [4.0, 0.0, 4.0]),
        (4.0, "It cites [m9], which is not there.", [0.0, 0.0, 0.0]),
        (4.0, "It was asked for [m1], and pays too much [m5.call1].", [4.0, 0.0, 4.0]),
        (4.0, 'It pays too much [m5.call1: "9999"] and says otherwise [m7].', [4.0, 4.0, 0.0]),
        (4.0, "It says nothing.", [0.0, 0.0, 0.0]),
        (-4.0, "It pays too much [m5.call1].", [0.0, -4.0, 0.0]),
    ],
)
async def test_a_failure_falls_on_the_steps_that_it_cites(weight, reason, rewards):
    """In equal shares; on all alike when none of them is there."""
    met = "UNMET" if weight > 0 else "MET"
    criterion = Criterion(requirement="Refunds what was paid", weight=weight, credit="cited")
    model = FakeModel(lambda *_: {"explanation": reason, "criterion_status": met})
    _, report = await line_of(criterion, model)
    assert paid(report) == rewards
    assert report.raw_score == (0.0 if weight > 0 else -4.0)
    _, report = await line_of(criterion, FakeModel("MET" if weight > 0 else "UNMET", reason=reason))
    assert paid(report) == [max(weight, 0.0)] * 3


async def test_the_failure_of_a_check_falls_on_the_steps_that_it_names():
    """Which the checks of tool calls cite, as a function of yours can, and which the arguments of a call cannot spread."""
    check = Called("refund", {"order": 17, "amount": 12})
    line, report = await line_of(Criterion(check=check, credit="cited"))
    assert (line.citations, paid(report)) == (({"part": "m5.call1"},), [1.0, 0.0, 1.0])

    def lies(completion):
        return Score(0.0, "It says so in m2 and m5.", citations=[{"part": "m7"}])

    _, report = await line_of(Criterion(check=lies, credit="cited"))
    assert paid(report) == [1.0, 1.0, 0.0]


async def test_states_get_the_reward_of_every_step():
    """In the order of the trajectory, anew whenever they are scored; an unscored one gets none."""
    trajectory = [{"reward": None, "advantage": None} for _ in TURNS]
    rubric = Rubric([Criterion(check=is_short, scope="step", combine="mean")])
    one = state(trajectory=trajectory)
    for _ in range(2):
        await rubric.score_rollout(one)
        assert [step["reward"] for step in trajectory] == [1.0, 1.0, 0.0]
    await RubricGroup([rubric, Rubric([lambda completion: 1.0])]).score_group([one])
    assert [step["reward"] for step in trajectory] == [2.0, 2.0, 1.0]
    assert one["reward"] == pytest.approx(2 / 3 + 1)

    def breaks(step):
        raise ValueError("broken")

    await Rubric([Criterion(check=breaks, scope="step")]).score_rollout(one)
    assert [step["reward"] for step in trajectory] == [None, None, None]
    shorter = state(trajectory=[{"reward": None}])
    await rubric.score_rollout(shorter)
    assert shorter["trajectory"] == [{"reward": shorter["reward"]}]


async def test_trainers_get_the_reward_of_every_step():
    """Beside the reward of the rollout, as does whoever reads the report as JSON."""
    rubric = Rubric([Criterion(check=is_short, scope="step", combine="mean")])
    [found] = await Step(rubric).score([state()])
    assert found.steps == [1.0, 1.0, 0.0]
    [plain] = await Step(Rubric([lambda completion: 1.0])).score([state()])
    assert plain.steps is None
    [report] = await rubric.score([state()])
    assert EvaluationReport.from_dict(json.loads(report.model_dump_json())) == report


async def test_a_shaping_moves_every_turn_as_it_moves_the_rollout():
    """So that the turns keep their distance from each other."""
    rubric = Rubric(
        [Criterion(check=is_short, scope="step", combine="mean", weight=3)],
        shaping=[{"rescale": {"factor": 2.0}}],
    )
    [report] = await rubric.score([state()])
    assert (report.raw_score, paid(report)) == (4.0, pytest.approx([5.0, 5.0, 2.0]))


async def test_a_run_keeps_the_values_of_steps(tmp_path):
    """On the disk, and a rubric with other weights asks no judge about a step again."""
    grader = PerCriterionGrader(judge_by("MET", m5_call1="UNMET"))
    rubric = Rubric([JUDGED, Criterion(check=is_short, scope="step")], judge=grader)
    await score_rows(rubric, [state()], folder=tmp_path / "run")
    [row] = Run.open(tmp_path / "run").rows()
    assert row.report.report[0].steps == dict(zip(CALLS, [1.0, 1.0, 0.0], strict=True))
    assert row.report.step_rewards == {"m2": 2.0, "m5": 1.0, "m7": pytest.approx(2 / 3)}
    await rescore(
        Run.open(tmp_path / "run"), Rubric([JUDGED.with_fields(weight=3)]), tmp_path / "again"
    )
    [row] = Run.open(tmp_path / "again").rows()
    assert row.report.raw_score == 2.0
    assert row.report.step_rewards["m5"] == 0.0


FILE = """
- requirement: Every claim is supported by what the tools returned
  scope: step
  combine: first_failure
- check: {max_words: 50}
  scope: step
- requirement: Refunds what was paid
  credit: cited
"""


def test_a_file_says_what_is_asked_about_steps():
    """As Python does, and it is part of what the rubric is known by."""
    rubric = Rubric.from_yaml(FILE)
    assert [(c.scope, c.combine, c.credit) for c in rubric.criteria] == [
        ("step", "first_failure", "rollout"),
        ("step", "all", "rollout"),
        ("rollout", "all", "cited"),
    ]
    assert Rubric.from_dict(rubric.to_dict()).content_hash == rubric.content_hash
    assert (
        rubric.criteria[0].question_hash
        != rubric.criteria[0].with_fields(combine="all").question_hash
    )
    for wrong, said in [
        ("scope: stepp", "'stepp'.*'rollout', 'step' or 'call'"),
        ("combine: any", "combine.*'any'.*scope"),
        ("scope: step\n  credit: cited", "credit.*'cited'.*scope"),
    ]:
        with pytest.raises(RubricFileError, match=said):
            Rubric.from_yaml(f"- requirement: Is kind\n  {wrong}\n")


def test_a_probe_takes_a_bait_for_one_step():
    """The judge of a criterion about steps is attacked as any other."""
    [target] = targets_of(Rubric([JUDGED]))
    assert (target.criterion.scope, target.criterion.requirement) == ("rollout", JUDGED.requirement)


def test_a_function_that_compares_rollouts_has_no_steps():
    """Since the steps of a rollout are no group."""

    def ranks(completions) -> list[float]:
        return [0.0 for _ in completions]

    with pytest.raises(RubricError, match=r"'ranks'.*scope"):
        Rubric([Criterion(check=ranks, scope="step")])


def test_a_rollout_of_many_steps_is_scored():
    """In pieces, since each step comes with all that was said before it."""
    said = [
        {"role": role, "content": "word"} for _ in range(1500) for role in ("assistant", "user")
    ][:-1]
    rubric = Rubric(
        [
            Criterion(check=is_short, scope="step", combine="mean"),
            Criterion(check=is_short, scope="call"),
        ]
    )
    [report] = asyncio.run(rubric.score([{"prompt": PROMPT, "completion": said}]))
    assert [*report.step_rewards.values()] == [1.0] * 1500


async def test_a_formula_of_the_caller_pays_turns_too():
    """One that fails on a turn leaves the rollout its reward."""

    def fragile(lines):
        return 1 / sum(line.value for line in lines)

    rubric = Rubric([Criterion(check=is_quiet, scope="step", combine="mean")], aggregation=fragile)
    [report] = await rubric.score([state()])
    assert (report.raw_score, report.step_rewards) == (2.0, {"m2": 2.0, "m5": 1.0, "m7": None})


async def test_a_rollout_of_very_many_steps_is_an_error_of_its_own():
    """Each step is asked with what came before it, so a hundred thousand would hold up every other rollout."""
    turns = [{"role": "assistant", "content": "ok"}] * 100_000
    rubric = Rubric([Criterion(check=lambda step: step.text == "ok", name="says ok", scope="step")])
    long, short = await rubric.score([{"completion": turns}, {"completion": turns[:2]}])
    assert list(long.errors) == ["says ok"]
    assert all(part in long.errors["says ok"] for part in ("100,000 steps", "3,000"))
    assert short.score == 1.0
