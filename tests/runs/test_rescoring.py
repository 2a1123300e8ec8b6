"""Scoring a saved run by another rubric keeps its generations and known verdicts."""

import json
import re
from base64 import b64decode
from io import BytesIO

import pytest
from PIL import Image

from assay import (
    Criterion,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    Rubric,
    RubricAsJudgeGrader,
    RubricGroup,
    ToolJudge,
    media_access,
    model_of,
)
from assay.graders import LengthPenalty
from assay.runs import Journal, Row, RowRubrics, Run, RunAbout, RunError, rescore, score_rows
from assay.testing import FakeModel, ModelServer, tool_call
from assay.tools import Workspace

ROWS = [{"completion": "In Paris."}, {"completion": "In Rome."}]
KIND, BRIEF, CALM = ({"requirement": f"Is {word}"} for word in ("kind", "brief", "calm"))


def make_judge(answer="MET"):
    model = FakeModel(answer, judge_id="the judge")
    return model, PerCriterionGrader(model)


async def score_and_open(folder, rubric, grader=None, rows=ROWS):
    await score_rows(rubric, rows, folder=folder, judge=grader)
    return Run.open(folder)


async def test_only_a_changed_requirement_is_judged_again(tmp_path):
    """One of two criteria is new: one call for each row, and the other verdicts are kept."""
    _, grader = make_judge("MET")
    run = await score_and_open(tmp_path / "a", Rubric([KIND, BRIEF]), grader)
    model, grader = make_judge("UNMET")
    summary = await rescore(run, Rubric([KIND, CALM]), tmp_path / "b", judge=grader)
    assert len(model.calls) == 2
    assert all("Is calm" in user for _, user in model.calls)
    rescored = Run.open(tmp_path / "b")
    assert [[line.verdict for line in row.report.lines] for row in rescored.rows()] == [
        ["MET", "UNMET"]
    ] * 2
    assert (rescored.about.kind, summary.score.mean) == ("rescore", 0.5)
    assert [row.fields for row in rescored.rows()] == ROWS


async def test_a_new_weight_name_or_order_needs_no_judge_call(tmp_path):
    """They do not affect the verdict: 3 of 4 points without a call."""
    _, grader = make_judge(lambda system, user: "MET" if "Is kind" in user else "UNMET")
    run = await score_and_open(tmp_path / "a", Rubric([KIND, BRIEF]), grader)
    rubric = Rubric([BRIEF, {**KIND, "weight": 3, "name": "warmth"}])
    summary = await rescore(run, rubric, tmp_path / "b")
    assert (summary.score.mean, summary.spent.calls, summary.unscored) == (0.75, 0, 0)
    [row, _] = Run.open(tmp_path / "b").rows()
    assert row.report.lines[1].reason == "because the rule says so"


async def test_checks_are_run_again(tmp_path):
    """A function has no hash, so its current result counts."""
    run = await score_and_open(tmp_path / "a", Rubric([lambda completion: 0.0]))
    await rescore(run, Rubric([lambda completion: "Paris" in completion]), tmp_path / "b")
    assert [row.score for row in Run.open(tmp_path / "b").rows()] == [1.0, 0.0]


async def test_another_judge_judges_every_criterion(tmp_path):
    """Saved verdicts belong to the judge that gave them."""
    _, grader = make_judge("MET")
    run = await score_and_open(tmp_path / "a", Rubric([KIND]), grader)
    model = FakeModel(("UNMET",))
    summary = await rescore(
        run, Rubric([KIND]), tmp_path / "b", judge=PerCriterionOneShotGrader(model)
    )
    assert (len(model.calls), summary.score.mean) == (2, 0.0)


async def test_a_failed_verdict_is_judged_again(tmp_path):
    """There is nothing to keep."""
    _, grader = make_judge(lambda system, user: ValueError("no") if "Rome" in user else "MET")
    run = await score_and_open(tmp_path / "a", Rubric([KIND]), grader)
    model, grader = make_judge("MET")
    summary = await rescore(run, Rubric([KIND]), tmp_path / "b", judge=grader)
    assert (len(model.calls), summary.unscored) == (1, 0)


async def test_a_missing_verdict_without_a_judge_is_an_error(tmp_path):
    """It does not count as unmet."""
    _, grader = make_judge("MET")
    run = await score_and_open(tmp_path / "a", Rubric([KIND]), grader)
    summary = await rescore(run, Rubric([KIND, CALM]), tmp_path / "b")
    assert (summary.unscored, summary.errors) == (2, {"JudgeError": 2})
    assert summary.criteria["is_kind"].met == 2


class TestConditions:
    def rubric(self, verdict):
        return Rubric(
            [{"requirement": "Gives a figure"}, {**KIND, "when": {"gives_a_figure": verdict}}]
        )

    async def test_a_criterion_that_applies_now_is_judged(self, tmp_path):
        """It was not judged before, so there is no verdict to keep."""
        _, grader = make_judge("MET")
        run = await score_and_open(tmp_path / "a", self.rubric("UNMET"), grader)
        model, grader = make_judge("MET")
        summary = await rescore(run, self.rubric("MET"), tmp_path / "b", judge=grader)
        assert len(model.calls) == 2
        assert (summary.criteria["is_kind"].met, summary.score.mean) == (2, 1.0)

    async def test_a_criterion_that_no_longer_applies_is_not_counted(self, tmp_path):
        """The condition is evaluated again."""
        _, grader = make_judge("MET")
        run = await score_and_open(tmp_path / "a", self.rubric("MET"), grader)
        model, grader = make_judge("MET")
        summary = await rescore(run, self.rubric("UNMET"), tmp_path / "b", judge=grader)
        assert (len(model.calls), summary.criteria["is_kind"].not_applicable) == (0, 2)

    async def test_a_verdict_of_not_applicable_is_kept(self, tmp_path):
        """It is a verdict of the judge."""
        criterion = {**KIND, "allow_na": True}
        _, grader = make_judge({"choice": "N/A", "explanation": ""})
        run = await score_and_open(tmp_path / "a", Rubric([criterion, lambda: 1.0]), grader)
        model, grader = make_judge("MET")
        summary = await rescore(run, Rubric([criterion, lambda: 1.0]), tmp_path / "b", judge=grader)
        assert (len(model.calls), summary.criteria["is_kind"].not_applicable) == (0, 2)


async def test_verdicts_of_a_nested_rubric_are_kept(tmp_path):
    """Its check is run again."""
    inner = Rubric([KIND, BRIEF, lambda completion: "Paris" in completion], name="essay")
    _, grader = make_judge("MET")
    run = await score_and_open(tmp_path / "a", Rubric([inner.as_criterion()]), grader)
    model, grader = make_judge("UNMET")
    summary = await rescore(
        run, Rubric([inner.as_criterion(weight=2), CALM]), tmp_path / "b", judge=grader
    )
    assert len(model.calls) == 2
    assert summary.unscored == 0


async def test_each_rubric_of_a_group_keeps_its_own_judge(tmp_path):
    """Neither judge is called for a verdict that it has given before."""

    def group(answer, *questions):
        models = [FakeModel(answer, judge_id="the judge") for _ in questions]
        rubrics = [
            Rubric([question], judge=PerCriterionGrader(model))
            for question, model in zip(questions, models, strict=True)
        ]
        return RubricGroup(rubrics), models

    first, _ = group("MET", KIND, BRIEF)
    run = await score_and_open(tmp_path / "a", first)
    second, models = group("UNMET", KIND, CALM)
    await rescore(run, second, tmp_path / "b")
    assert [len(model.calls) for model in models] == [0, 2]
    [row, _] = Run.open(tmp_path / "b").rows()
    assert row.report.metrics == {"is_kind": 1.0, "is_calm": 0.0}


@pytest.mark.parametrize(
    "grader",
    [
        lambda model: RubricAsJudgeGrader(model),
        lambda model: PerCriterionGrader(
            model, length_penalty=LengthPenalty(free_budget=0, max_cap=9, penalty_at_cap=0.5)
        ),
    ],
)
async def test_a_judge_of_the_whole_rubric_is_called_again(tmp_path, grader):
    """Its number depends on all criteria and weights together."""
    reply = 80 if isinstance(grader(FakeModel()), RubricAsJudgeGrader) else "MET"
    run = await score_and_open(tmp_path / "a", Rubric([KIND]), grader(FakeModel(reply)))
    model = FakeModel(reply)
    summary = await rescore(
        run, Rubric([{**KIND, "weight": 2}]), tmp_path / "b", judge=grader(model)
    )
    assert (len(model.calls), summary.unscored) == (2, 0)


async def test_rows_that_failed_to_generate_keep_their_error(tmp_path):
    """The other rows keep the id and the timing of the model."""
    with Journal.open(tmp_path / "a", RunAbout.of("evaluate", model="m")) as journal:
        journal.write(Row("0", error="Overloaded: try later"))
        journal.write(Row("1", fields=ROWS[0], timing={"generation": 2.0}, model="m-1"))
    rubric = Rubric([lambda completion: 1.0])
    summary = await rescore(Run.open(tmp_path / "a"), rubric, tmp_path / "b")
    assert (summary.scored, summary.failed, summary.errors) == (1, 1, {"Overloaded": 1})
    row = Run.open(tmp_path / "b").row("1")
    assert (row.model, row.timing["generation"], row.score) == ("m-1", 2.0, 1.0)
    assert Run.open(tmp_path / "b").about.model == "m"


async def test_rollouts_of_one_example_are_compared_wherever_they_are(tmp_path):
    """Rows of a run are in the order in which they were finished."""
    with Journal.open(tmp_path / "a", RunAbout.of("evaluate")) as journal:
        for example, sample in (("a", 1), ("b", 0), ("a", 0)):
            journal.write(Row(example, sample, {"completion": f"{example}{sample}"}))
    rubric = Rubric([Criterion(check=lambda completions: [len(completions)] * len(completions))])
    await rescore(Run.open(tmp_path / "a"), rubric, tmp_path / "b")
    rescored = {row.key: row.reward for row in Run.open(tmp_path / "b").rows()}
    assert rescored == {("a", 0): 2.0, ("a", 1): 2.0, ("b", 0): 1.0}


async def test_rows_with_their_own_rubric_keep_their_verdicts(tmp_path):
    """The rubric is a field of the row."""
    _, grader = make_judge("MET")
    rows = [{**ROWS[0], "rubric": [KIND]}, {**ROWS[1], "rubric": [BRIEF]}]
    run = await score_and_open(tmp_path / "a", None, grader, rows)
    model, grader = make_judge("UNMET")
    summary = await rescore(run, None, tmp_path / "b", judge=grader)
    assert (len(model.calls), summary.score.mean) == (0, 1.0)


async def test_a_rubric_argument_replaces_the_rubrics_of_rows(tmp_path):
    """Neither their criteria nor their column count."""
    _, grader = make_judge("MET")
    rows = [{**ROWS[0], "rubric": [KIND]}, {**ROWS[1], "rubric": [BRIEF]}]
    run = await score_and_open(tmp_path / "a", None, grader, rows)
    model, grader = make_judge("UNMET")
    summary = await rescore(run, Rubric([CALM]), tmp_path / "b", judge=grader)
    assert (len(model.calls), summary.score.mean) == (2, 0.0)
    assert list(summary.criteria) == ["is_calm"]
    assert [row.fields for row in Run.open(tmp_path / "b").rows()] == ROWS


async def test_verdicts_of_row_rubrics_are_kept_under_a_rubric_argument(tmp_path):
    """The first row was already judged on the requirement; only the second has to be."""
    _, grader = make_judge("MET")
    rows = [{**ROWS[0], "rubric": [KIND]}, {**ROWS[1], "rubric": [BRIEF]}]
    run = await score_and_open(tmp_path / "a", None, grader, rows)
    model, grader = make_judge("UNMET")
    await rescore(run, Rubric([KIND]), tmp_path / "b", judge=grader)
    assert len(model.calls) == 1
    assert [row.score for row in Run.open(tmp_path / "b").rows()] == [1.0, 0.0]


async def test_verdicts_on_another_part_of_the_conversation_are_not_kept(tmp_path):
    """The judge of the row's rubric read only the last message; the new rubric shows all."""
    messages = [{"role": "assistant", "content": "In Paris."}]
    row_rubric = {"criteria": [KIND], "shows": "last"}
    _, grader = make_judge("MET")
    run = await score_and_open(
        tmp_path / "a", None, grader, [{"completion": messages, "rubric": row_rubric}]
    )
    model, grader = make_judge("UNMET")
    await rescore(run, Rubric([KIND]), tmp_path / "b", judge=grader)
    assert len(model.calls) == 1


async def test_row_rubrics_score_their_rows_and_the_default_rubric_scores_the_others(tmp_path):
    """As when the rows were first scored."""
    rows = [{**ROWS[0], "rubric": [{"check": {"contains": "Rome"}}]}, ROWS[1]]
    run = await score_and_open(tmp_path / "a", Rubric([lambda: 0.0]), None, rows)
    await rescore(run, RowRubrics(Rubric([lambda: 0.5])), tmp_path / "b")
    rescored = Run.open(tmp_path / "b")
    assert [row.reward for row in rescored.rows()] == [0.0, 0.5]
    assert [row.fields for row in rescored.rows()] == rows


async def test_another_judge_of_row_rubrics_judges_every_criterion(tmp_path):
    """The run knows its judge, although its own rubric has no judged criterion."""
    rows = [{**row, "rubric": [KIND]} for row in ROWS]
    _, grader = make_judge("MET")
    run = await score_and_open(tmp_path / "a", Rubric([lambda: 1.0]), grader, rows)
    model = FakeModel(("UNMET",))
    summary = await rescore(run, None, tmp_path / "b", judge=PerCriterionOneShotGrader(model))
    assert (len(model.calls), summary.score.mean) == (2, 0.0)


async def test_rescoring_can_be_stopped_and_resumed(tmp_path):
    run = await score_and_open(tmp_path / "a", Rubric([lambda: 1.0]))
    rubric, seen = Rubric([lambda: 0.5]), []
    options = {"on_row": seen.append}
    first = await rescore(run, rubric, tmp_path / "b", stopping=lambda: bool(seen), **options)
    second = await rescore(run, rubric, tmp_path / "b", resume=True, **options)
    assert (first.complete, second.complete, second.rollouts, len(seen)) == (False, True, 2, 2)


async def test_a_run_cannot_be_rescored_into_its_own_folder(tmp_path):
    """Its rows are being read."""
    run = await score_and_open(tmp_path, Rubric([lambda: 1.0]))
    with pytest.raises(RunError, match="would be overwritten"):
        await rescore(run, Rubric([lambda: 0.5]), tmp_path / "." / "")


def read_file_then_judge(messages):
    """Read the file first, then judge by its content."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if not results:
        return tool_call("read_file", path="colour.txt")
    verdict = "MET" if "red" in results[-1] else "UNMET"
    return json.dumps({"explanation": "", "criterion_status": verdict})


async def test_a_tool_judge_reads_changed_files_again(tmp_path):
    """The file changes from red to blue; for an unchanged file the cache has the verdict."""
    folder = tmp_path / "files"
    folder.mkdir()
    rubric = Rubric([{"requirement": "The file says red"}])
    with ModelServer(read_file_then_judge) as server:
        model = model_of(server.model, cache=tmp_path / "cache.db")
        grader = ToolJudge([Workspace(folder)], model=model)
        (folder / "colour.txt").write_text("red")
        run = await score_and_open(tmp_path / "a", rubric, grader, ROWS[:1])
        call_count = len(server.requests)
        unchanged = await rescore(run, rubric, tmp_path / "b", judge=grader)
        assert (unchanged.score.mean, len(server.requests)) == (1.0, call_count)
        (folder / "colour.txt").write_text("blue")
        changed = await rescore(run, rubric, tmp_path / "c", judge=grader)
    assert (run.summary().score.mean, changed.score.mean) == (1.0, 0.0)


def draw(path, colour):
    Image.new("RGB", (8, 8), colour).save(path)


def is_red(messages):
    [url] = re.findall(r'"url": "data:image/png;base64,([^"]+)', json.dumps(messages))
    with Image.open(BytesIO(b64decode(url))) as image:
        verdict = "MET" if image.getpixel((0, 0)) == (255, 0, 0) else "UNMET"
    return json.dumps({"explanation": "", "criterion_status": verdict})


async def test_a_changed_image_file_is_judged_again(tmp_path):
    """The row contains only its path."""
    picture = tmp_path / "picture.png"
    part = {"type": "image_url", "image_url": {"url": str(picture)}}
    rows = [{"prompt": [{"role": "user", "content": [part]}], "completion": "A red square."}]
    rubric = Rubric([{"requirement": "Names the colour of the picture"}])
    with ModelServer(is_red) as server, media_access(tmp_path):
        grader = PerCriterionGrader(model=model_of(server.model, media="image"))
        draw(picture, "red")
        run = await score_and_open(tmp_path / "a", rubric, grader, rows)
        draw(picture, "blue")
        changed = await rescore(run, rubric, tmp_path / "b", judge=grader)
    assert (run.summary().score.mean, changed.score.mean) == (1.0, 0.0)


async def test_a_row_with_an_invalid_rubric_is_scored_by_a_rubric_argument(
    tmp_path,
):
    rows = [{"completion": "x", "rubric": [{"chekc": "refusal"}]}]
    await score_rows(None, rows, folder=tmp_path / "a")
    run = Run.open(tmp_path / "a")
    assert "chekc" in run.row("0").errors["rollout"]
    summary = await rescore(run, Rubric([lambda: 0.5]), tmp_path / "b")
    assert summary.reward.mean == 0.5
    summary = await rescore(run, None, tmp_path / "c")
    assert summary.unscored == 1
