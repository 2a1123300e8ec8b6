"""Signs that a model learns to please its reward."""

import json
from types import SimpleNamespace
from urllib.request import urlopen

import pytest

from assay import Rollout, Rubric, RubricError
from assay.integrations import Alarms, RewardMonitor, compute_score_of, to_jsonl, to_tracker
from assay.integrations.monitor import rank_correlation, slope_break
from assay.server import RemoteRubric, RewardServer, Settings


@pytest.fixture
def said():
    return []


@pytest.fixture
def monitor(said):
    return RewardMonitor(warn=said.append)


def test_longer_answers_that_are_paid_more_are_noticed(monitor, said):
    """Reward and length in the same order: a rank correlation of 1."""
    signs = monitor.observe(["x" * (n + 1) for n in range(20)], [n / 20 for n in range(20)])
    assert signs["length_correlation"] == pytest.approx(1.0)
    assert said == [
        "step 1: length_correlation is 1.00, past 0.5: longer answers are paid more; see whether they are better"
    ]


def test_a_few_rollouts_prove_no_correlation(monitor, said):
    """Three in order happen by chance one time in six."""
    signs = monitor.observe(["x", "xx", "xxx"], [0.1, 0.2, 0.3])
    assert signs["length_correlation"] == 1.0
    assert not [line for line in said if "length" in line]


def test_groups_that_all_get_the_same_teach_nothing(monitor, said):
    """Two of three groups are flat, one of them at the top: 0.67 and 0.33."""
    rewards = [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    signs = monitor.observe(list("abcdef"), rewards, groups=[1, 1, 2, 2, 3, 3])
    assert signs["zero_variance"] == pytest.approx(2 / 3)
    assert signs["saturated"] == pytest.approx(1 / 3)


def test_a_warning_is_given_once_until_it_is_over(said):
    """Unscored in steps 1 and 2, fine in 3, unscored again in 4."""
    monitor = RewardMonitor(window=1, warn=said.append)
    for reward in (None, None, 1.0, None):
        monitor.observe(["an answer"], [reward])
    assert [line.split(":")[0] for line in said if "unscored" in line] == ["step 1", "step 4"]


def test_unscored_rollouts_are_counted_and_not_taken_for_zero(monitor):
    signs = monitor.observe(["a", "b", "c", "d"], [None, 1.0, 1.0, 1.0])
    assert signs["unscored"] == 0.25


def test_empty_and_copied_completions_are_counted(monitor):
    signs = monitor.observe(["Solution:", "same", "same", "other"], [0.0, 1.0, 1.0, 0.0])
    assert (signs["degenerate"], signs["repeated"]) == (0.25, 0.25)


def test_the_window_forgets(said):
    """A bad first step is out of sight after one more."""
    monitor = RewardMonitor(window=1, warn=said.append)
    monitor.observe(["a"], [None])
    assert monitor.observe(["b"], [1.0])["unscored"] == 0


async def test_a_second_judge_that_stays_behind_is_drift(monitor, said):
    """Ours rises from 0.5 to 0.9 and theirs stays at 0.5."""

    async def second(rows):
        return [0.5] * len(rows)

    monitor.second, rows = second, [{"completion": "a"}, {"completion": "b"}]
    assert (await monitor.watch(rows, [0.5, 0.5], [{}, {}], is_step=True))["drift"] == 0
    assert (await monitor.watch(rows, [0.9, None], [{}, {}], is_step=True))[
        "drift"
    ] == pytest.approx(0.4)
    assert any("drift is 0.40, past 0.1" in line for line in said)


async def test_a_second_judge_without_an_answer_says_nothing(monitor):
    async def second(rows):
        return [None] * len(rows)

    monitor.second = second
    assert "drift" not in await monitor.watch([{"completion": "a"}], [1.0], [{}], is_step=True)


def test_limits_are_the_users(said):
    monitor = RewardMonitor(alarms=Alarms(unscored=0.9), warn=said.append)
    monitor.observe(["a", "b"], [None, 1.0])
    assert said == []


def test_uneven_columns_are_refused(monitor):
    with pytest.raises(RubricError, match="2 texts and 1 rewards"):
        monitor.observe(["a", "b"], [1.0])


def test_ties_share_their_rank():
    """Ranks 1.5, 1.5, 3 against 1, 2, 3: by hand 1.5 / √(1.5 × 2)."""
    assert rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(1.5 / 3**0.5)


def test_what_does_not_vary_has_no_correlation():
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None


def test_one_criterion_that_decides_alone_is_named(monitor, said):
    """`style` varies and the reward follows `right` alone, over enough rollouts to be no chance."""
    right, style = [float(n % 2) for n in range(400)], [float(n % 3 == 0) for n in range(400)]
    signs = monitor.observe(
        [f"text {n}" for n in range(400)], right, parts={"right": right, "style": style}
    )
    assert signs["dominance"] == pytest.approx(1.0)
    assert "dominance (right) is 1.00, past 0.95" in said[-1]
    both = [(a + b) / 2 for a, b in zip(right, style, strict=True)]
    shared = monitor.observe(
        [f"text {n}" for n in range(400)], both, parts={"right": right, "style": style}
    )
    assert shared["dominance"] < 0.95


def test_a_slope_that_breaks_is_noticed():
    """Ten steps of noise about 0.2, then ten that climb by 0.05 each; noise alone breaks nothing."""
    noise = [0.01 * (-1) ** n for n in range(20)]
    flat = [0.2 + n for n in noise]
    climbing = flat[:10] + [0.2 + 0.05 * n + noise[n] for n in range(10)]
    assert abs(slope_break(flat)) < 1
    assert slope_break(climbing) > 5
    assert slope_break([0.1 * n for n in range(10)]) == 0.0
    assert slope_break([0.0] * 5 + [0.1 * n for n in range(5)]) == 100.0
    assert slope_break([0.1] * 7) is None
    assert slope_break([None, *flat]) is None


def test_a_break_names_what_broke(said):
    """The reward stays at 0.5 while a part rises, as where another outweighs it; the part is named."""
    monitor = RewardMonitor(warn=said.append)
    for step in range(20):
        rise = max(0, step - 10) * 0.05
        parts = {"format": [0.1 + rise] * 2, "right": [0.9] * 2}
        monitor.observe(["a word", "other words"], [0.5, 0.5], parts=parts)
    assert any("slope_break (format)" in line for line in said)


def test_length_and_repetition_drift_from_the_first_steps(said):
    """Twice as long, and a text that says the same again and again."""
    monitor = RewardMonitor(warn=said.append)
    for _ in range(5):
        monitor.observe(["one two three four"], [1.0])
    for _ in range(5):
        signs = monitor.observe(["one two three one two three one two"], [1.0])
    assert signs["length_drift"] == pytest.approx(35 / 18 - 1)
    assert signs["repetition_drift"] == pytest.approx(0.5)
    assert [line.split(" is ")[0] for line in said if "drift" in line] == [
        "step 7: repetition_drift",
        "step 8: length_drift",
    ]


async def test_rollouts_are_gathered_into_steps(said):
    """Single samples, as verl sends them: a step is what makes up `step_size`."""
    monitor = RewardMonitor(warn=said.append, step_size=3)
    score = compute_score_of(Rubric([right, short]), unscored="zero", monitor=monitor)
    for text in ("4", "down", "5", "4"):
        await score("sums", text, "4")
    assert monitor.steps == 1
    assert await monitor.watch([], [], [], is_step=True) != {}
    assert monitor.steps == 2
    assert "unscored is 0.33" in said[0]


async def test_a_second_judge_is_asked_about_a_sample():
    """Four of ten with a reward, drawn anew at each step; a judge that is down stops nothing."""
    asked = []

    async def second(rows):
        if len(asked) == 2:
            raise ConnectionError("down")
        asked.append([row["completion"] for row in rows])
        return [0.0] * len(rows)

    monitor = RewardMonitor(second=second, sample=4, warn=lambda line: None)
    rows = [{"completion": str(n)} for n in range(11)]
    for reward in (0.25, 0.75):
        signs = await monitor.watch(rows, [reward] * 10 + [None], [{}] * 11, is_step=True)
    assert signs["drift"] == 0.5
    assert [len(texts) for texts in asked] == [4, 4]
    assert asked[0] != asked[1]
    assert "10" not in asked[0] + asked[1]
    assert "drift" not in await monitor.watch(rows, [1.0] * 11, [{}] * 11, is_step=True)


def right(completion, answer):
    if completion == "down":
        raise ConnectionError("the judge is down")
    return completion == answer


def short(completion):
    return len(completion) < 3


def test_signs_go_to_every_sink_and_none_stops_training(tmp_path, caplog):
    """A function, an object with `log`, a file; one that fails is logged."""
    seen = []

    class Broken:
        def log(self, step, values):
            raise OSError("the disk is full")

    path = tmp_path / "signs.jsonl"
    sinks = [Broken(), lambda step, values: seen.append((step, values)), to_jsonl(path, "rank 0")]
    monitor = RewardMonitor(sinks=sinks, warn=lambda line: None)
    signs = [monitor.observe(["a", "b"], [1.0, None]) for _ in range(2)]
    assert seen == [(1, signs[0]), (2, signs[1])]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"step": step, "source": "rank 0", **values} for step, values in seen]
    assert "Broken object" in caplog.text
    assert "did not take the values of step 1: OSError: the disk is full" in caplog.text


def test_trackers_are_called_as_they_ask_to_be():
    """The names and arguments of W&B, TensorBoard and MLflow; their own packages take them in tests/trainers."""
    called = []
    take = lambda *given, **named: called.append((*given, *named.values()))  # noqa: E731
    for method in ("log", "add_scalar", "log_metrics"):
        to_tracker(SimpleNamespace(**{method: take}))(3, {"unscored": 0.5})
    assert called == [
        ({"assay/step": 3, "assay/unscored": 0.5},),
        ("assay/unscored", 0.5, 3),
        ({"assay/unscored": 0.5}, 3),
    ]


async def test_a_server_watches_what_it_scores(tmp_path):
    """Ten rollouts of three a step: three steps, and the rest when the server ends; Prometheus sees the last signs."""
    steps = []
    monitor = RewardMonitor(
        sinks=[lambda step, values: steps.append(values)], step_size=3, warn=lambda line: None
    )
    with RewardServer(Rubric([right, short]), monitor=monitor) as server:
        remote = RemoteRubric(server.url)
        for text in ["4"] * 9 + ["down"]:
            await remote.score([Rollout(prompt="2+2?", completion=text, answer="4")])
    assert [values["unscored"] for values in steps] == [0, 0, 0, pytest.approx(0.1)]


def test_a_server_writes_to_a_file(tmp_path):
    path = tmp_path / "signs.jsonl"
    with RewardServer(Rubric([right]), Settings(port=0, monitor=str(path))) as server:
        RemoteRubric(server.url).score_rollouts(["2+2?"] * 300, ["4"] * 300, ["4"] * 300)
        with urlopen(f"{server.url}/metrics") as page:
            assert 'assay_reward_sign{sign="unscored"} 0.0' in page.read().decode()
    assert {json.loads(line)["unscored"] for line in path.read_text().splitlines()} == {0}
