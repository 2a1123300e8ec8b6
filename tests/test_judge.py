"""`judge=` wherever a rubric is used: the name of a model, a model, a function or a grader."""

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay import (
    Anchor,
    Anchored,
    Cascade,
    EarlyStop,
    Expectation,
    Guarded,
    Panel,
    PerCriterionGrader,
    PerCriterionOutput,
    Referenced,
    Refused,
    Request,
    Rubric,
    RubricError,
    RubricGroup,
    Run,
    Samples,
    Swapped,
    Tournament,
    model_of,
    rescore,
    score_rows,
)
from assay.backends import Processes, RubricStage, given, score_shards
from assay.envs import SingleTurnEnv
from assay.graders import Grader, grader_of
from assay.integrations import (
    Dialogue,
    areal_reward_of,
    as_trl_reward,
    as_trl_rewards,
    assert_grades,
    compute_score_of,
    compute_scores_of,
    custom_rm_of,
    reward_func_of,
)
from assay.integrations.step import Step
from assay.integrations.verl import compute_score
from assay.presets import JudgeRubric
from assay.probe import probe
from assay.runs import RowRubrics, score_rows_sync
from assay.server import JudgeSettings, RemoteRubric, RewardServer
from assay.server.settings import SettingsError
from assay.suggest import suggest_from_references
from assay.testing import FakeModel, ModelServer
from assay.trust import run_golden

CRITERIA = [{"requirement": "Names Paris", "weight": 2}]
ROW = {"completion": "Paris."}
SAMPLE = ("task", "Paris.", "")  # source, completion and answer, as verl passes them
run = asyncio.run


def names_paris(system_prompt: str, user_prompt: str) -> str:
    """Return the verdict of the servers in this file."""
    return "MET" if "Paris." in user_prompt else "UNMET"


def is_short(completion: str) -> bool:
    return len(completion) < 100


@pytest.fixture
def server():
    with ModelServer(names_paris) as server:
        yield server


def by_function(server: ModelServer) -> Callable[..., Any]:
    model = model_of(server.model)

    async def ask(system_prompt: str, user_prompt: str) -> Any:
        request = Request.of(system_prompt, user_prompt, schema=PerCriterionOutput)
        return (await model(request)).value

    return ask


KINDS: dict[str, Callable[[ModelServer], Any]] = {
    "name": lambda server: server.model,
    "model": lambda server: model_of(server.model),
    "function": by_function,
    "grader": lambda server: PerCriterionGrader(server.model),
}


def a_rubric(**options: Any) -> Rubric:
    return Rubric(CRITERIA, **options)


def a_file(tmp_path: Path, criteria: str = "- requirement: Names Paris\n") -> Path:
    path = tmp_path / "rubric.yaml"
    path.write_text(criteria)
    return path


def an_environment() -> SingleTurnEnv:
    return SingleTurnEnv([{"prompt": "The capital?"}], rubric=a_rubric())


def by_score_group(judge: Any, tmp_path: Path) -> Any:
    states: list[Any] = [dict(ROW)]
    run(a_rubric().score_group(states, judge=judge))
    return states[0]["reward"] / 2


def by_rescoring(judge: Any, tmp_path: Path) -> Any:
    run(score_rows(Rubric([is_short]), [ROW], folder=tmp_path / "first"))
    saved = Run.open(tmp_path / "first")
    return run(rescore(saved, a_rubric(), tmp_path / "second", judge=judge)).score.mean


def by_environment(judge: Any, tmp_path: Path) -> Any:
    with ModelServer("Paris.") as tested:
        return an_environment().evaluate_sync(model=tested.model, judge=judge)["reward"][0] / 2


def by_generating(judge: Any, tmp_path: Path) -> Any:
    with ModelServer("Paris.") as tested:
        results = an_environment().generate_sync(model=tested.model, n_samples=1, judge=judge)
    return results["reward"][0] / 2


def by_dialogue(judge: Any, tmp_path: Path) -> Any:
    async def score() -> Any:
        dialogue = Dialogue("The capital?", {})
        await dialogue.add("Paris.")
        return await dialogue.score(Step(a_rubric(), judge=judge))

    return run(score()).score


def by_slime(judge: Any, tmp_path: Path) -> Any:
    sample = SimpleNamespace(prompt="", response="Paris.", label="", metadata={})
    return run(custom_rm_of(a_rubric(), judge=judge, value="score")(None, sample))


def by_golden_examples(judge: Any, tmp_path: Path) -> Any:
    golden = [{"completion": "Paris.", "expect": {"names_paris": "MET"}}]
    rubric = Rubric.from_dict({"criteria": CRITERIA, "golden": golden})
    [result] = run(run_golden(rubric, judge)).results
    return float(bool(result.right))


def by_probe(judge: Any, tmp_path: Path) -> Any:
    report = run(probe(a_rubric(), judge, attacks=()))
    return float(report.judge != "")


def by_references(judge: Any, tmp_path: Path) -> Any:
    criterion = {"reason": "It is asked.", "requirement": "Names Paris", "weight": 1}
    drafter = FakeModel({"reason": "It is asked.", "criteria": [criterion]})
    suggestion = run(suggest_from_references("The capital?", ["Paris."], drafter, judge))
    return float(len(suggestion.kept))


def by_reward_server(judge: Any, tmp_path: Path) -> Any:
    with RewardServer(a_rubric(), judge=judge) as server:
        return run(RemoteRubric(server.url).score(ROW)).score


def by_assignment(judge: Any, tmp_path: Path) -> Any:
    rubric = a_rubric()
    rubric.grader = judge
    return rubric.grade_sync("Paris.").score


def by_ray_data(judge: Any, tmp_path: Path) -> Any:
    import numpy

    batch = {"completion": numpy.array(["Paris."], dtype=object)}
    return RubricStage(lambda: (a_rubric(), judge))(batch)["score"][0]


def nested(judge: Any, tmp_path: Path) -> Any:
    return Rubric([a_rubric().as_criterion()], judge=judge).grade_sync("Paris.").score


ENTRY_POINTS: dict[str, Callable[[Any, Path], Any]] = {
    "Rubric": lambda judge, _: a_rubric(judge=judge).grade_sync("Paris.").score,
    "a nested rubric": nested,
    "Rubric.grader": by_assignment,
    "from_dict": lambda judge, _: (
        Rubric.from_dict(CRITERIA, judge=judge).grade_sync("Paris.").score
    ),
    "from_json": lambda judge, _: (
        Rubric.from_json('[{"requirement": "Names Paris"}]', judge=judge).grade_sync("Paris.").score
    ),
    "from_yaml": lambda judge, _: (
        Rubric.from_yaml("- requirement: Names Paris", judge=judge).grade_sync("Paris.").score
    ),
    "from_toml": lambda judge, _: (
        Rubric.from_toml('[[criteria]]\nrequirement = "Names Paris"', judge=judge)
        .grade_sync("Paris.")
        .score
    ),
    "from_file": lambda judge, tmp_path: (
        Rubric.from_file(a_file(tmp_path), judge=judge).grade_sync("Paris.").score
    ),
    "RubricGroup": lambda judge, _: (
        RubricGroup([a_rubric()], judge=judge).grade_sync("Paris.").score
    ),
    "a group in a file": lambda judge, tmp_path: (
        RubricGroup.from_file(
            a_file(tmp_path, "rubrics:\n- criteria:\n  - requirement: Names Paris\n"), judge=judge
        )
        .grade_sync("Paris.")
        .score
    ),
    "JudgeRubric": lambda judge, _: run(JudgeRubric(CRITERIA, judge=judge).score([ROW]))[0].score,
    "grade": lambda judge, _: run(a_rubric().grade("Paris.", judge=judge)).score,
    "grade, by position": lambda judge, _: run(a_rubric().grade("Paris.", judge)).score,
    "grade(autograder=)": lambda judge, _: run(a_rubric().grade("Paris.", autograder=judge)).score,
    "grade_sync": lambda judge, _: a_rubric().grade_sync("Paris.", judge=judge).score,
    "score": lambda judge, _: run(a_rubric().score(ROW, judge=judge)).score,
    "score_group": by_score_group,
    "RowRubrics": lambda judge, _: (
        run(RowRubrics(judge=judge).score([ROW | {"rubric": CRITERIA}]))[0].score
    ),
    "RowRubrics.score": lambda judge, _: (
        run(RowRubrics(a_rubric()).score([ROW], judge=judge))[0].score
    ),
    "score_rows": lambda judge, _: run(score_rows(a_rubric(), [ROW], judge=judge)).score.mean,
    "score_rows_sync": lambda judge, _: (
        score_rows_sync(None, [ROW | {"rubric": CRITERIA}], judge=judge).score.mean
    ),
    "rescore": by_rescoring,
    "env.evaluate": by_environment,
    "env.generate": by_generating,
    "RubricStage": by_ray_data,
    "as_trl_reward": lambda judge, _: run(
        as_trl_reward(a_rubric(), judge=judge, value="score")(["?"], ["Paris."])
    )[0],
    "as_trl_rewards": lambda judge, _: run(
        as_trl_rewards(a_rubric(), judge=judge)[0][0](["?"], ["Paris."])
    )[0],
    "compute_score_of": lambda judge, _: run(
        compute_score_of(a_rubric(), judge=judge, value="score")(*SAMPLE)
    )["score"],
    "compute_scores_of": lambda judge, _: compute_scores_of(a_rubric(), judge=judge, value="score")(
        *([cell] for cell in SAMPLE)
    )[0]["score"],
    "reward_func_of": lambda judge, _: reward_func_of(a_rubric(), judge=judge)(
        ["?Paris."], ["?"], [""]
    )["scores"][0],
    "custom_rm_of": by_slime,
    "areal_reward_of": lambda judge, _: areal_reward_of(a_rubric(), judge=judge, value="score")(
        "?", "Paris.", (), ()
    ),
    "Dialogue": by_dialogue,
    "run_golden": by_golden_examples,
    "probe": by_probe,
    "suggest_from_references": by_references,
    "assert_grades": lambda judge, _: assert_grades(a_rubric(), [ROW], judge=judge).score.mean,
    "RewardServer": by_reward_server,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_every_kind_of_judge_is_asked(
    entry_point: str, kind: str, server: ModelServer, tmp_path: Path
) -> None:
    """The answer is the judge's, and the server has been asked."""
    judge = KINDS[kind](server)
    assert float(ENTRY_POINTS[entry_point](judge, tmp_path)) == 1.0
    assert server.calls > 0


WRONG: dict[str, tuple[Any, str]] = {
    "a number": (3, "judge is 3: give the name of a model such as 'openai/gpt-5-mini', a model"),
    "a rubric": (Rubric([is_short]), "judge is <Rubric .*: give the name of a model"),
    "a class": (PerCriterionGrader, r"the class PerCriterionGrader: give an object of it"),
    "a list": ([], r"judge is \[\]: give the name of a model"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_anything_else_is_refused(entry_point: str, wrong: str, tmp_path: Path) -> None:
    value, message = WRONG[wrong]
    with pytest.raises(TypeError, match=message):
        ENTRY_POINTS[entry_point](value, tmp_path)


def test_a_client_has_to_name_its_model() -> None:
    completions = SimpleNamespace(create=lambda **_: None)
    client = SimpleNamespace(chat=SimpleNamespace(completions=completions), base_url="http://x/v1")
    with pytest.raises(TypeError, match=r"which model to ask: give model_of\(client, "):
        Rubric(CRITERIA, judge=client)


@pytest.mark.parametrize("name", ["gpt-5-mini", "", "opnai/gpt-5-mini", "http://127.0.0.1:1/v1"])
def test_a_text_that_names_no_model_is_refused(name: str) -> None:
    with pytest.raises(Refused, match=r"give|add|did you mean"):
        Rubric(CRITERIA, judge=name)


def test_one_function_converts() -> None:
    grader = PerCriterionGrader(FakeModel("MET"))
    assert grader_of(grader) is grader
    assert grader_of(None) is None
    assert isinstance(grader_of(FakeModel("MET")), Grader)


def test_only_one_of_judge_and_autograder_is_given() -> None:
    with pytest.raises(TypeError, match="give judge="):
        a_rubric().grade_sync("x", judge=FakeModel("MET"), autograder=FakeModel("MET"))
    with pytest.raises(TypeError, match="autograder"):
        Rubric(CRITERIA, autograder=FakeModel("MET"))  # pyright: ignore[reportCallIssue]


def test_the_judge_of_a_call_takes_the_place_of_that_of_the_rubric() -> None:
    rubric = a_rubric(judge=FakeModel("UNMET"))
    assert rubric.grade_sync("x").score == 0.0
    assert rubric.grade_sync("x", judge=FakeModel("MET")).score == 1.0
    assert RubricGroup([rubric]).grade_sync("x", judge=FakeModel("MET")).score == 1.0


async def test_an_override_of_score_gets_the_judge(server: ModelServer) -> None:
    class Doubled(Rubric):
        async def score(self, rollouts: Any, *, judge: Any = None) -> Any:
            reports = await super().score(rollouts, judge=judge)
            return [
                report.model_copy(update={"raw_score": 2 * report.raw_score}) for report in reports
            ]

    [report] = await RubricGroup([Doubled(CRITERIA)]).score([ROW], judge=server.model)
    assert report.raw_score == 4.0


def test_needs_judge_looks_into_nested_rubrics_and_groups() -> None:
    judged, unjudged = a_rubric(judge=FakeModel("MET")), a_rubric()
    assert unjudged.needs_judge
    assert not judged.needs_judge
    assert not Rubric([is_short]).needs_judge
    assert not RubricGroup([judged, Rubric([is_short])]).needs_judge
    assert RubricGroup([judged, unjudged]).needs_judge
    assert not Rubric([judged.as_criterion()]).needs_judge
    assert Rubric([unjudged.as_criterion()]).needs_judge


@pytest.mark.parametrize("kind", ["name", "model", "grader"])
def test_a_judge_reaches_worker_processes(kind: str, server: ModelServer, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"completion": "Paris."}\n')
    make = given(a_rubric(), judge=KINDS[kind](server))
    summary = score_shards(make, [rows], tmp_path / "run", backend=Processes(1))
    assert (summary.score.mean, server.calls) == (1.0, 1)


def test_a_wrong_judge_does_not_reach_worker_processes() -> None:
    with pytest.raises(TypeError, match="judge is 3"):
        given(a_rubric(), judge=3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("make", [as_trl_reward, compute_score_of, areal_reward_of])
def test_a_reward_function_with_a_named_judge_can_be_pickled(
    make: Any, server: ModelServer, tmp_path: Path
) -> None:
    reward = make(a_file(tmp_path), judge=server.model)
    assert callable(pickle.loads(pickle.dumps(reward)))


def test_verl_names_the_judge_in_its_configuration(server: ModelServer, tmp_path: Path) -> None:
    told = run(compute_score(*SAMPLE, rubric=str(a_file(tmp_path)), judge=server.model))
    assert (told["score"], server.calls) == (1.0, 1)


def test_a_remote_rubric_takes_no_judge(server: ModelServer) -> None:
    with RewardServer(a_rubric(), judge=server.model) as served:
        remote = RemoteRubric(served.url)
        with pytest.raises(RubricError, match="leave judge out"):
            run(remote.score(ROW, judge=server.model))
        with pytest.raises(RubricError, match="leave judge out"):
            Step(remote, judge=server.model)


COMPOSITES: dict[str, Callable[[Any], Grader]] = {
    "Panel": lambda judge: Panel([judge, judge]),
    "a named panel": lambda judge: Panel({"ann": judge}),
    "Cascade": lambda judge: Cascade([judge, judge]),
    "Samples": lambda judge: Samples(judge, 2),
    "Swapped": Swapped,
    "EarlyStop": EarlyStop,
    "Expectation": Expectation,
    "Anchored": lambda judge: Anchored(judge, [Anchor("Names Rome", "Rome", "MET")]),
    "Referenced": lambda judge: Referenced(judge, "Paris."),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("composite", COMPOSITES)
def test_graders_around_graders_take_every_kind_of_judge(
    composite: str, kind: str, server: ModelServer
) -> None:
    judge = COMPOSITES[composite](KINDS[kind](server))
    assert a_rubric().grade_sync("Paris.", judge=judge).score >= 0.9
    assert server.calls > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_guard_and_a_tournament_take_every_kind_of_judge(kind: str, server: ModelServer) -> None:
    judge = KINDS[kind](server)
    assert a_rubric().grade_sync("Rome.", judge=Guarded(judge)).score == 0.0
    states: list[Any] = [{"prompt": "?", "completion": text} for text in ("Paris.", "Rome.")]
    run(Rubric([Tournament(judge)]).score_group(states))
    assert server.calls >= 3


def test_settings_of_a_model_do_not_fit_a_grader() -> None:
    grader = PerCriterionGrader(FakeModel("MET"))
    assert JudgeSettings(grader, guard=True).judge is grader
    with pytest.raises(SettingsError, match="has its own window: leave window out"):
        JudgeSettings(grader, window=1000)
