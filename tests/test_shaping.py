"""Rewards that are shaped, beside the outcome that the criteria come to."""

import asyncio
import json
import math

import pytest

from assay import Criterion, Rollout, Rubric, RubricError, RubricFileError, RubricGroup, Score
from assay.integrations import as_trl_reward, compute_score_of, reward_func_of
from assay.models.http import HttpAddress
from assay.runs import Run, score_rows
from assay.shaping import measure_repetition


def right(completion):
    if "down" in completion:
        raise ConnectionError("the judge is down")
    return "4" in completion


def tagged(completion):
    return completion.startswith("<")


def rewards(shaping, texts, **columns):
    rows = [
        {"completion": text} | {name: column[n] for name, column in columns.items()}
        for n, text in enumerate(texts)
    ]
    rubric = Rubric([right, Criterion(check=tagged, weight=0)], shaping=shaping)
    states = [dict(row) for row in rows]
    asyncio.run(rubric.score_group(states))
    for state in states:
        assert state["outcome"] == (
            None if state["reward"] is None else float("4" in state["completion"])
        )
    return [state["reward"] for state in states]


def test_a_reward_is_clipped_and_rescaled_in_order():
    """2·1 − 0.5 is cut to 1; 2·0 − 0.5 to −0.25."""
    parts = [{"rescale": {"factor": 2, "shift": -0.5}}, {"clip": {"low": -0.25, "high": 1}}]
    assert rewards(parts, ["4", "5", "down"]) == [1.0, -0.25, None]


def test_a_clip_to_one_number_pays_that_number():
    assert rewards([{"clip": {"low": 0.5, "high": 0.5}}], ["4", "5"]) == [0.5, 0.5]


def test_an_answer_that_is_too_long_is_paid_less():
    """DAPO with a limit of 10 and a cache of 4: nothing off 6 words, a half off 8, all off 10 and more."""
    texts = ["4 " * n for n in (6, 8, 10, 50)]
    assert rewards([{"soft_overlong": {"most": 10, "cache": 4}}], texts) == [1.0, 0.5, 0.0, 0.0]
    half = rewards([{"soft_overlong": {"most": 10, "cache": 4, "factor": 0.5}}], texts)
    assert half == [1.0, 0.75, 0.5, 0.5]


def test_length_can_be_counted_by_a_field():
    """Token ids or their number, as trainers hand them over; a rollout without the field is unscored by itself."""
    part = {"soft_overlong": {"most": 10, "cache": 4, "count": "tokens"}}
    assert rewards([part], ["4", "4", "4", "down"], tokens=[[1] * 8, 10, None, 3]) == [
        0.5,
        0.0,
        None,
        None,
    ]


def test_length_counts_among_right_answers_alone():
    """Lengths 1 and 3: z is −1 and 1. A wrong answer, and one without a reward, changes nothing and gets nothing."""
    low, high = 0.2 / (1 + math.e), 0.2 / (1 + math.exp(-1))
    texts = ["4", "4 4 4", "no", "no " * 900, "down"]
    found = rewards([{"group_length": {"alpha": 0.2}}], texts)
    assert found[:4] == pytest.approx([1 - low, 1 - high, 0.0, 0.0])
    assert found[4] is None
    assert rewards([{"group_length": {"alpha": 0.2}}], ["4", "4"]) == pytest.approx([0.9, 0.9])
    assert rewards([{"group_length": {}}], ["no", "down"]) == [0.0, None]


def test_the_length_penalty_is_measured_in_standard_deviations():
    """Lengths 2, 4, 4, 4, 5, 5, 7, 9: their mean is 5 and their standard deviation 2."""
    lengths = [2, 4, 4, 4, 5, 5, 7, 9]
    paid = rewards([{"group_length": {"alpha": 0.4}}], ["4 " * length for length in lengths])
    expected = [1 - 0.4 / (1 + math.exp(-(length - 5) / 2)) for length in lengths]
    assert paid == pytest.approx(expected)


def share(completion):
    return float(completion.split()[0])


@pytest.mark.parametrize(
    ("options", "paid"),
    [
        ({}, [0.45, 0.49]),
        ({"right": 0.49, "alpha": 0.2}, [0.4, 0.39]),
        ({"right": 0.6}, [0.5, 0.49]),
    ],
)
async def test_an_answer_that_scores_exactly_right_pays_the_length_penalty(options, paid):
    """All lengths are equal, so that a right answer loses half of alpha; by default a score of 0.5 is right."""
    reports = await Rubric([share], shaping=[{"group_length": options}]).score(
        [Rollout(completion="0.5"), Rollout(completion="0.49")]
    )
    assert [report.raw_score for report in reports] == pytest.approx(paid)


async def test_where_nothing_can_be_gained_the_outcome_tells_what_is_right():
    """Not the reward, which a part before may have raised: -1 is wrong, and keeps its 4."""
    rubric = Rubric(
        [Criterion(check=lambda completion: completion == "rude", name="rude", weight=-1)],
        aggregation="healthbench",
        shaping=[{"rescale": {"shift": 5}}, {"group_length": {"right": 0, "alpha": 0.2}}],
    )
    polite, rude = await rubric.score([Rollout(completion="kind"), Rollout(completion="rude")])
    assert polite.score is None
    assert (polite.raw_score, rude.raw_score) == (pytest.approx(4.9), 4.0)


def test_a_penalty_of_zero_takes_nothing_off():
    parts = [
        {"group_length": {"alpha": 0}},
        {"repetition": {"most": 0}},
        {"soft_overlong": {"most": 2, "cache": 1, "factor": 0}},
    ]
    assert rewards(parts, ["4 4 4 4 4", "4"]) == [1.0, 1.0]


def test_length_can_be_counted_in_characters():
    """Eight characters, of which two are spaces, lie in the middle between 6 and 10."""
    part = {"soft_overlong": {"most": 10, "cache": 4, "count": "characters"}}
    assert rewards([part], ["4 is it.", "4 " * 5]) == [0.5, 0.0]


def test_repetition_is_paid_less():
    """Of the four runs of three words in `a b c a b c`, one stood there before."""
    assert measure_repetition("a b c a b c") == 0.25
    assert measure_repetition("a b") == 0.0
    assert rewards([{"repetition": {"most": 2}}], ["4 b c 4 b c", "4 b c"]) == [0.5, 1.0]


def test_repetition_is_counted_over_runs_of_the_size_given_whatever_their_case():
    """Of the three runs of two words in `4 b 4 B`, one repeats another; no run of three words does."""
    assert rewards([{"repetition": {"size": 2}}], ["4 b 4 B"]) == pytest.approx([2 / 3])
    assert rewards([{"repetition": {}}], ["4 b 4 B"]) == [1.0]


def test_a_gate_closes_where_the_format_is_wrong():
    """What has no tag gets at most 0, and less where it had less."""
    assert rewards([{"format_gate": {"criterion": "tagged"}}], ["<4>", "4", "<5>"]) == [
        1.0,
        0.0,
        0.0,
    ]
    assert rewards(
        [{"rescale": {"shift": -2}}, {"format_gate": {"criterion": "tagged"}}], ["<4>", "4"]
    ) == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("value", "options", "paid"),
    [
        (0.9, {}, 0.0),
        (0.5, {"least": 0.5}, 1.0),
        (0.49, {"least": 0.5}, 0.0),
        (0.49, {"least": 0.5, "pays": -1}, -1.0),
    ],
)
def test_a_gate_is_open_from_its_least_value_on(value, options, paid):
    """By default nothing below 1 opens it."""
    gated = Rubric(
        [right, Criterion(check=lambda completion: value, name="form", weight=0)],
        shaping=[{"format_gate": {"criterion": "form", **options}}],
    )
    assert gated.grade_sync("4").raw_score == paid


def test_a_gate_stays_open_where_its_criterion_does_not_apply():
    rubric = Rubric(
        [right, Criterion(check=lambda completion: Score.not_applicable(), name="form", weight=0)],
        shaping=[{"format_gate": {"criterion": "form"}}],
    )
    assert rubric.grade_sync("4").raw_score == 1.0


def test_the_score_stays_what_was_right():
    """Reports add up by it; the outcome stands beside the reward, in columns too."""
    shaped = Rubric([right], weights=[2], shaping=[{"rescale": {"factor": 0.25}}])
    report = shaped.grade_sync("4")
    assert (report.raw_score, report.outcome, report.score) == (0.5, 2.0, 1.0)
    both = RubricGroup([shaped, Rubric([right])]).grade_sync("4")
    assert (both.raw_score, both.outcome, both.score) == (1.5, 3.0, 1.0)
    assert type(report).from_dict(report.to_dict()) == report
    assert shaped.score_rollout_sync(completion="4") == {
        "right": 1.0,
        "reward": 0.5,
        "outcome": 2.0,
    }
    whole = RubricGroup([shaped, Rubric([right])], shaping=[{"clip": {"high": 1.0}}]).grade_sync(
        "4"
    )
    assert (whole.raw_score, whole.outcome) == (1.0, 1.5)


def test_a_group_of_shaped_groups_adds_up_what_was_right():
    """Gained are 2 + 1 inside and 1 beside it, of 4: the score is 1, whatever both shapings pay."""
    shaped = Rubric([right], weights=[2], shaping=[{"rescale": {"factor": 0.25}}])
    inner = RubricGroup([shaped, Rubric([right])], shaping=[{"clip": {"high": 1.0}}])
    report = RubricGroup([inner, Rubric([right])]).grade_sync("4")
    assert (report.raw_score, report.score) == (2.0, 1.0)


def test_without_shaping_the_outcome_is_the_reward():
    report = Rubric([right]).grade_sync("4")
    assert report.outcome == report.raw_score == 1.0
    assert "unshaped" not in report.to_dict()
    assert "outcome" not in Rubric([right]).score_rollout_sync(completion="4")


def test_a_part_of_your_own_is_a_function_of_the_group():
    """One that fails, or that returns no number, leaves the rollouts unscored and says why; alone where it is independent."""

    def ranked(earned):
        order = sorted(one.reward for one in earned)
        return [order.index(one.reward) for one in earned]

    def picky(earned):
        return [1 / ("4" in one.text) for one in earned]

    picky.independent = True
    assert rewards([ranked], ["4", "5", "down"]) == [1.0, 0.0, None]
    assert rewards([lambda earned: [max(one.reward for one in earned)]], ["down"]) == [None]
    assert rewards([picky], ["4", "5"]) == [1.0, None]
    assert rewards([lambda earned: [math.nan] * len(earned)], ["4", "5"]) == [None, None]
    assert rewards([lambda earned: [1.0, None]], ["4"]) == [None]
    assert rewards([lambda earned: [1e100, -1e100]], ["4", "5"]) == [1e100, -1e100]
    assert rewards([lambda earned: [2e100, -2e100]], ["4", "5"]) == [None, None]
    report = Rubric([right], shaping=[picky]).score_rollout_sync(completion="5")
    assert (report["reward"], report["partial_reward"]) == (None, 0.0)
    with pytest.raises(ZeroDivisionError):
        Rubric([right], shaping=[picky], on_error="raise").score_rollout_sync(completion="5")


def test_what_compares_needs_a_group():
    """As with a check that compares, a rollout alone is refused."""
    rubric = Rubric([right], shaping=[{"group_length": {}}])
    assert rubric.compares
    with pytest.raises(RubricError, match=r"'group_length'.*use score_group"):
        rubric.score_rollout_sync(completion="4")


@pytest.mark.parametrize(
    ("shaping", "message"),
    [
        ("- clip: {low: 2, high: 1}", "clip.*low.*high"),
        ("- clip", "clip.*low.*high"),
        ("- clipp: {low: 1}", "did you mean 'clip'"),
        ("- {clip: {low: 1}, rescale: {}}", "clip.*rescale"),
        ("- rescale: {factor: -1}", "factor is -1"),
        ("- rescale: {factor: 0}", "factor is 0"),
        ("- soft_overlong: {most: 10, cache: 0}", "cache is 0"),
        ("- group_length: {alpha: -0.1}", "alpha is -0.1"),
        ("- repetition: {size: 0}", "size is 0"),
        ("- soft_overlong: {most: 10}", "cache"),
        ("- soft_overlong: {most: 10, cache: 3, unit: words}", "unit"),
        ("- format_gate: {criterion: contain}", "did you mean 'contains'"),
        ("- {format_gate: 3}", "format_gate"),
        ("- math:floor", "give --allow-code, in Python allow_code=True"),
        ("  clip", "'clip'.*list"),
    ],
)
def test_a_file_that_shapes_wrongly_says_where(shaping, message):
    text = f"criteria:\n- check: {{contains: '4'}}\nshaping:\n{shaping}\n"
    with pytest.raises((RubricFileError, RubricError), match=message):
        Rubric.from_yaml(text)


FILE = """
criteria:
- check: {contains: "4"}
- check: {contains: "<"}
  name: tagged
  weight: 0
shaping:
- soft_overlong: {most: 10, cache: 5}
- format_gate: {criterion: tagged, pays: -1}
- clip: {low: -0.5}
"""


def test_a_file_shapes_and_is_written_again():
    """The hash tells it from the same criteria without, and from other numbers."""
    rubric = Rubric.from_yaml(FILE)
    again = Rubric.from_yaml(rubric.to_yaml())
    assert again.to_dict() == rubric.to_dict()
    assert again.content_hash == rubric.content_hash
    assert len({rubric.content_hash, Rubric(rubric.criteria).content_hash}) == 2
    assert Rubric.from_yaml(FILE.replace("-0.5", "-0.4")).content_hash != rubric.content_hash
    assert again.score_rollout_sync(completion="4")["reward"] == -0.5
    group = RubricGroup.from_yaml(
        "rubrics:\n- [{check: {contains: '4'}, weight: 3}]\nshaping: [{clip: {high: 2}}]"
    )
    assert group.score_rollout_sync(completion="4")["reward"] == 2.0
    assert RubricGroup.from_yaml(group.to_yaml()).content_hash == group.content_hash


def test_a_rubric_inside_another_shapes_nothing():
    """It is worth its score there, so that a shaping would be lost in silence."""
    with pytest.raises(RubricError, match="shaping of its own"):
        Rubric([Rubric([right], shaping=[{"clip": {"high": 0.5}}]).as_criterion()])


async def test_trainers_get_the_outcome_beside_the_reward():
    """verl and OpenRLHF can filter groups by it; OpenRLHF's `scores` are what was right."""
    rubric = Rubric([right], weights=[2], shaping=[{"rescale": {"factor": 0.25}}])
    told = await compute_score_of(rubric, unscored="zero")("sums", "4", "4")
    assert told == {"score": 0.5, "unscored": 0.0, "outcome": 2.0, "right": 1.0}
    down = await compute_score_of(rubric, unscored="zero")("sums", "down", "4")
    assert down == {"score": 0.0, "unscored": 1.0, "outcome": 0.0, "right": 0.0}
    logs = reward_func_of(rubric)(["4"], [""], ["4"])
    assert (logs["rewards"], logs["scores"], logs["extra_logs"]["outcome"]) == ([0.5], [1.0], [2.0])
    seen = {}
    paid = as_trl_reward(rubric)(["q", "q"], ["4", "down"], log_extra=seen.__setitem__)
    assert (paid, seen["assay/outcome"]) == ([0.5, None], [2.0, None])
    with pytest.raises(RubricError, match="pay value='reward'"):
        as_trl_reward(rubric, value="score")


async def test_groups_are_shaped_by_themselves():
    """Two prompts in one batch: each length is compared with those of its own prompt."""
    rubric = Rubric([right], shaping=[{"group_length": {"alpha": 0.2}}])
    paid = as_trl_reward(rubric)(["a", "a", "b", "b"], ["4", "4 4 4", "4 " * 99, "4 " * 99])
    assert paid[2:] == pytest.approx([0.9, 0.9])


async def test_a_run_keeps_both(tmp_path):
    """Saved and read again, a row has the reward, the outcome and the score."""
    rubric = Rubric([right], weights=[2], shaping=[{"rescale": {"factor": 0.25}}])
    rows = [{"prompt": "2+2?", "completion": text} for text in ("4", "5", "down")]
    await score_rows(rubric, rows, folder=tmp_path / "run")
    found = [
        (row.reward, row.report.outcome, row.score) for row in Run.open(tmp_path / "run").rows()
    ]
    assert found == [(0.5, 2.0, 1.0), (0.0, 0.0, 0.0), (None, None, None)]


async def test_a_server_says_both():
    from assay.server import RemoteRubric, RewardServer

    rubric = Rubric([right], weights=[2], shaping=[{"rescale": {"factor": 0.25}}])
    with RewardServer(rubric) as server:
        [report] = await RemoteRubric(server.url).score([Rollout(completion="4")])
        message = {"type": "message", "role": "assistant", "content": "4"}
        row = {"responses_create_params": {"input": "2+2?"}, "response": {"output": [message]}}
        verified = await HttpAddress(
            f"{server.url}/verify", {"Content-Type": "application/json"}
        ).send(json.dumps(row).encode(), 30)
    assert (verified.data["reward"], verified.data["outcome"]) == (0.5, 2.0)
    assert (report.raw_score, report.outcome, report.score) == (0.5, 2.0, 1.0)


async def test_a_length_that_cannot_be_counted_is_that_rollouts_own_trouble():
    """The others of its group are compared without it."""
    rubric = Rubric(
        [lambda completion: 1.0], shaping=[{"group_length": {"count": "tokens", "alpha": 1.0}}]
    )
    rows = [{"completion": "a", "tokens": 2}, {"completion": "b"}, {"completion": "c", "tokens": 4}]
    short, lost, long = await rubric.score(rows)
    assert lost.raw_score is None
    assert "'tokens' is None" in lost.errors["group_length"]
    assert short.raw_score > long.raw_score
