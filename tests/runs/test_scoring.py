"""Rows in, a run out."""

import asyncio
import json
import re

import pytest

from assay import (
    Criterion,
    Guarded,
    LengthPenalty,
    PerCriterionGrader,
    Rubric,
    RubricError,
    RubricGroup,
    Samples,
    TableError,
    rows_of,
)
from assay.models import budget, model_of
from assay.runs import Run, RunAbout, RunError, data_about, score_rows
from assay.runs.run_file import RunFile
from assay.testing import FakeModel, ModelServer

PARIS = Rubric.from_dict([{"check": {"contains": "Paris"}}])


def texts(*completions, **more):
    return [{"completion": text, **more} for text in completions]


def lines_of(folder):
    """What is saved of each rollout, as JSON, in the order in which it was saved."""
    return [data for (data,) in RunFile(folder).select("SELECT data FROM rollouts ORDER BY id")]


async def test_rows_are_scored_and_saved_in_order(tmp_path):
    """Two of three name it."""
    rows = texts("Paris.", "Rome.", "In Paris")
    summary = await score_rows(PARIS, rows, folder=tmp_path)
    assert (summary.rollouts, summary.score.mean, summary.complete) == (
        3,
        pytest.approx(2 / 3),
        True,
    )
    run = Run.open(tmp_path)
    assert [(row.example, row.score) for row in run.rows()] == [("0", 1.0), ("1", 0.0), ("2", 1.0)]
    assert [row.fields for row in run.rows()] == rows
    assert run.summary() == summary == run.work_out()
    assert Rubric.from_dict(run.about.rubric.source).content_hash == PARIS.content_hash


async def test_without_a_folder_only_the_watcher_sees_rows():
    """The summary is the same."""
    seen = []
    summary = await score_rows(PARIS, texts("Paris", "Rome"), on_row=seen.append)
    assert [(row.example, row.reward) for row in seen] == [("0", 1.0), ("1", 0.0)]
    assert summary.score.mean == 0.5


async def test_many_rows_give_what_scoring_them_at_once_gives(tmp_path):
    """Whatever the chunks were."""
    rubric = Rubric([lambda n: n % 7 / 7, lambda n: n % 2 == 0], weights=[1, 0.5])
    rows = [{"n": n} for n in range(2500)]
    await score_rows(rubric, rows, folder=tmp_path)
    assert [row.report for row in Run.open(tmp_path).rows()] == await rubric.score(rows)


async def test_an_empty_input_is_an_empty_run(tmp_path):
    """And can be begun again."""
    summary = await score_rows(PARIS, [], folder=tmp_path)
    assert (summary.rollouts, summary.complete, summary.score.mean) == (0, True, None)
    assert (await score_rows(PARIS, texts("Paris"), folder=tmp_path)).rollouts == 1


class TestKeys:
    async def keys(self, rows):
        seen = []
        await score_rows(Rubric([lambda: 1.0]), rows, on_row=lambda row: seen.append(row.key))
        return seen

    async def test_an_example_goes_by_its_own_id(self):
        """`example_id` before `id`, and as text."""
        rows = [{"example_id": 7, "id": "x"}, {"id": 8.5}, {"example_id": None, "id": "z"}]
        assert await self.keys(rows) == [("7", 0), ("8.5", 0), ("z", 0)]

    async def test_rollouts_of_one_example_are_numbered_as_they_come(self):
        """Wherever they stand."""
        assert await self.keys([{"id": name} for name in "abaab"]) == [
            ("a", 0),
            ("b", 0),
            ("a", 1),
            ("a", 2),
            ("b", 1),
        ]

    async def test_a_row_may_say_which_sample_it_is(self):
        """As a number, or as a table of text has it. A column that means something else is left alone."""
        assert await self.keys([{"id": "a", "sample": 4}, {"id": "a", "sample": "2"}]) == [
            ("a", 4),
            ("a", 2),
        ]
        assert await self.keys([{"id": "a", "sample": "blood"}]) == [("a", 0)]

    async def test_without_ids_rows_go_by_their_number(self):
        """From 0."""
        assert await self.keys([{}, {"sample": 3}][:1]) == [("0", 0)]

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            (
                [{"id": "a", "sample": 0}, {"id": "a", "sample": 0}],
                "row 1 is example 'a', sample 0",
            ),
            ([{"id": "a"}, {}], "row 1 has no `id`, but the rows before it have one"),
            ([{}, {"id": "a"}], "row 1 has its own `id`, but the rows before it have none"),
            ([{"id": "a"}, {"id": "a", "sample": 1}], "row 1 has its own `sample`"),
        ],
    )
    async def test_two_rows_cannot_go_by_one_key(self, rows, words):
        """The row is named."""
        with pytest.raises(RunError, match=words):
            await self.keys(rows)


class TestChecks:
    async def test_what_a_check_leaves_in_the_state_is_not_saved(self, tmp_path):
        """A later check reads it; the row stays what it was, inside too."""

        def leave(state, info):
            state["found"] = 3
            info["seen"] = True
            return 1.0

        rubric = Rubric([leave, lambda state: state["found"]])
        await score_rows(rubric, [{"completion": "x", "info": {}}], folder=tmp_path)
        [row] = Run.open(tmp_path).rows()
        assert (row.reward, row.fields) == (4.0, {"completion": "x", "info": {}})

    async def test_a_check_that_fails_is_an_error_of_its_row(self, tmp_path):
        """The others are scored, and resuming does that row again."""
        down = tmp_path / "down"
        down.touch()

        def check(completion):
            if completion == "Rome" and down.exists():
                raise OSError("the disk is away")
            return 1.0

        rubric = Rubric([check])
        rows = texts("Paris", "Rome", "Oslo")
        folder = tmp_path / "run"
        summary = await score_rows(rubric, rows, folder=folder)
        assert (summary.unscored, summary.errors) == (1, {"OSError": 1})
        down.unlink()
        seen = []
        summary = await score_rows(rubric, rows, folder=folder, resume=True, on_row=seen.append)
        assert [row.example for row in seen] == ["1"]
        assert (summary.rollouts, summary.unscored) == (3, 0)

    async def test_a_rubric_that_does_not_fit_the_data_leaves_every_row_unscored(self, tmp_path):
        """Each with the error, which counts in the summary."""
        await score_rows(Rubric([lambda price: 1.0]), texts("x", "y"), folder=tmp_path)
        rows = list(Run.open(tmp_path).rows())
        assert [row.reward for row in rows] == [None, None]
        for row in rows:
            assert "needs an argument 'price'" in row.errors["check_1"]

    async def test_a_field_that_a_later_row_lacks_is_an_error_of_that_row(self, tmp_path):
        """The same, whether it is scored among others or alone."""
        rubric = Rubric([Criterion(check=lambda price: price, name="cheap"), lambda: 1.0])
        rows = [{"price": 1.0}, {}, {"price": 0.5}]
        await score_rows(rubric, rows, folder=tmp_path)
        among = Run.open(tmp_path).row("1")
        assert list(among.errors) == ["cheap"]
        assert among.errors["cheap"].startswith("SignatureError: ")
        assert "'price'" in among.errors["cheap"]
        await score_rows(rubric, rows, folder=tmp_path, resume=True)
        assert Run.open(tmp_path).row("1").report == among.report

    async def test_on_error_raise_stops_the_run(self, tmp_path):
        """What was done before is saved."""
        rubric = Rubric([lambda n: 1 / n], on_error="raise")
        with pytest.raises(ZeroDivisionError):
            await score_rows(rubric, [{"n": 1}, {"n": 0}], folder=tmp_path)
        assert len(Run.open(tmp_path)) == 1

    async def test_an_async_check_goes_side_by_side(self):
        """Four that wait for each other all end."""
        gate = asyncio.Barrier(4)

        async def meets():
            await gate.wait()
            return 1.0

        summary = await asyncio.wait_for(score_rows(Rubric([meets]), [{}] * 4), 30)
        assert summary.score.mean == 1.0

    async def test_no_more_rows_than_allowed_are_under_way(self):
        """Three of ten at most."""
        now = most = 0

        async def counted():
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            return 1.0

        await score_rows(Rubric([counted]), [{}] * 10, max_concurrent=3)
        assert most == 3


class TestGroups:
    RUBRIC = Rubric(
        [Criterion(check=lambda completions: [len(completions)] * len(completions), name="size")]
    )

    async def test_rollouts_of_an_example_are_compared(self, tmp_path):
        """Two of a, one of b, three of c."""
        rows = [{"id": name, "completion": "x"} for name in "aabccc"]
        await score_rows(self.RUBRIC, rows, folder=tmp_path)
        rewards = {row.key: row.reward for row in Run.open(tmp_path).rows()}
        assert rewards == {
            ("a", 0): 2,
            ("a", 1): 2,
            ("b", 0): 1,
            ("c", 0): 3,
            ("c", 1): 3,
            ("c", 2): 3,
        }

    async def test_rollouts_that_stand_apart_are_refused(self):
        """They could not be compared without keeping everything."""
        with pytest.raises(RunError, match="those of 'a' are not adjacent: sort the rows"):
            await score_rows(self.RUBRIC, [{"id": name, "completion": ""} for name in "aba"])

    async def test_rows_that_do_not_say_their_example_are_refused(self):
        """Nobody could tell what to compare."""
        with pytest.raises(RunError, match="row 0 does not name its example"):
            await score_rows(self.RUBRIC, texts("x", "y"))

    async def test_a_group_is_done_again_whole_and_saved_in_part(self, tmp_path):
        """One of two failed: both are compared again, and the one that failed is written."""
        down = tmp_path / "down"
        down.touch()

        def check(completions):
            fails = down.exists()
            return [None if fails and text == "bad" else len(completions) for text in completions]

        rubric = Rubric([Criterion(check=check, name="size")])
        rows = [{"id": "a", "completion": "good"}, {"id": "a", "completion": "bad"}]
        folder = tmp_path / "run"
        await score_rows(rubric, rows, folder=folder)
        down.unlink()
        summary = await score_rows(rubric, rows, folder=folder, resume=True)
        assert len(lines_of(folder)) == 2
        assert (summary.rollouts, summary.reward.mean) == (2, 2.0)


class TestJudged:
    RUBRIC = Rubric([{"requirement": "Names Paris"}])

    async def test_spending_stands_on_each_row(self, tmp_path):
        """One call a row; its price is not known, and that is said."""
        with ModelServer(lambda system, user: "MET") as server, budget() as around:
            grader = PerCriterionGrader(model=model_of(server.model))
            summary = await score_rows(
                self.RUBRIC, texts("a b", "c d"), folder=tmp_path, judge=grader
            )
        rows = list(Run.open(tmp_path).rows())
        assert [row.spent.calls for row in rows] == [1, 1]
        assert all(row.spent.prompt > 0 and row.timing["scoring"] > 0 for row in rows)
        assert (summary.spent.calls, around.calls) == (2, 2)
        assert summary.spent.tokens == around.usage.prompt + around.usage.completion

    async def test_a_row_is_saved_as_soon_as_its_report_is_there(self, tmp_path):
        """While another is still being judged."""
        slow, saved = asyncio.Event(), []

        async def answer(system, user):
            if "slow" in user:
                await slow.wait()
            return "MET"

        def on_row(row):
            saved.append([json.loads(line)["example"] for line in lines_of(tmp_path)])
            slow.set()

        grader = PerCriterionGrader(FakeModel(answer))
        rows = texts("a slow one", "a quick one")
        await score_rows(self.RUBRIC, rows, folder=tmp_path, judge=grader, on_row=on_row)
        assert saved == [["1"], ["1", "0"]]

    async def test_a_judge_that_fails_leaves_the_row_to_be_done_again(self, tmp_path):
        """Only that one is asked about when the run is resumed."""
        model = FakeModel([ConnectionError("away"), "MET", "UNMET"])
        rows = texts("first text", "second text")
        options = {"folder": tmp_path, "judge": PerCriterionGrader(model), "max_concurrent": 1}
        first = await score_rows(self.RUBRIC, rows, **options)
        second = await score_rows(self.RUBRIC, rows, resume=True, **options)
        assert (first.unscored, second.unscored, len(model.calls)) == (1, 0, 3)
        assert {row.example: row.score for row in Run.open(tmp_path).rows()} == {"0": 0.0, "1": 1.0}
        assert Run.open(tmp_path).about.judge.startswith("PerCriterionGrader(")

    async def test_a_run_tells_in_whose_words_its_judge_was_asked(self, tmp_path):
        """The shipped ones by name and version, or one's own; to go on in other words is refused."""
        shipped = PerCriterionGrader(FakeModel("MET"))
        own = PerCriterionGrader(FakeModel("MET"), system_prompt="Be strict.")
        await score_rows(self.RUBRIC, texts("x"), folder=tmp_path / "shipped", judge=shipped)
        await score_rows(self.RUBRIC, texts("x"), folder=tmp_path / "own", judge=own)
        assert re.search(r", per_criterion/\d+\b", Run.open(tmp_path / "shipped").about.judge)
        assert (
            Run.open(tmp_path / "own")
            .about.judge.partition(", ")[2]
            .startswith("per_criterion/own")
        )
        with pytest.raises(RunError, match="per_criterion/own"):
            await score_rows(
                self.RUBRIC, texts("x"), folder=tmp_path / "own", judge=shipped, resume=True
            )

    async def test_nobody_to_ask_is_said_at_once(self, tmp_path):
        """The folder can be used again."""
        with pytest.raises(RubricError, match="no judge was named"):
            await score_rows(self.RUBRIC, texts("x"), folder=tmp_path)
        grader = PerCriterionGrader(FakeModel())
        await score_rows(self.RUBRIC, texts("some text"), folder=tmp_path, judge=grader)


class TestStopping:
    async def test_what_is_under_way_is_finished_and_the_run_goes_on_later(self, tmp_path):
        """Stopped after three rows of ten."""
        rows, seen = [{"n": n} for n in range(10)], []
        stopping = lambda: len(seen) >= 3  # noqa: E731
        rubric = Rubric([lambda n: n])
        options = {"folder": tmp_path, "on_row": seen.append}
        summary = await score_rows(rubric, rows, stopping=stopping, **options)
        assert not summary.complete
        assert 3 <= summary.rollouts < 10
        again = await score_rows(rubric, rows, resume=True, **options)
        assert (again.rollouts, again.complete, len(seen)) == (10, True, 10)

    async def test_rows_in_flight_are_waited_for(self, tmp_path):
        """Two are being judged when it is told to stop; both are saved, and no third is begun."""
        begun = asyncio.Event()

        async def answer(system, user):
            begun.set()
            await asyncio.sleep(0)
            return "MET"

        rubric = Rubric([{"requirement": "Is so"}], judge=PerCriterionGrader(FakeModel(answer)))
        summary = await score_rows(
            rubric,
            texts(*[f"text {n}" for n in range(50)]),
            folder=tmp_path,
            stopping=begun.is_set,
            max_concurrent=2,
        )
        assert summary.rollouts == len(lines_of(tmp_path)) == 2
        assert summary.unscored == 0

    async def test_a_cancelled_run_keeps_what_is_finished(self, tmp_path):
        """As Ctrl-C leaves it."""
        finished, may_end, folder = asyncio.Event(), tmp_path / "may end", tmp_path / "run"

        async def check(n):
            while n and not may_end.exists():  # noqa: ASYNC110 - the file is outside of the code
                await asyncio.sleep(0)
            return 1.0

        rubric, rows = Rubric([check]), [{"n": n} for n in range(4)]
        on_row = lambda row: finished.set()  # noqa: E731
        task = asyncio.create_task(score_rows(rubric, rows, folder=folder, on_row=on_row))
        await finished.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_end.touch()
        assert len(lines_of(folder)) == 1
        assert (await score_rows(rubric, rows, folder=folder, resume=True)).rollouts == 4


class TestProgress:
    async def test_it_is_told_at_the_end_at_least(self, tmp_path):
        """Done, errors and what is left."""
        told = []
        rubric = Rubric([lambda n: 1 / n])
        await score_rows(
            rubric, [{"n": n} for n in (1, 0, 2)], folder=tmp_path, on_progress=told.append
        )
        last = told[-1]
        assert (last.done, last.total, last.errors, last.unscored, last.eta) == (3, 3, 1, 1, 0.0)
        await score_rows(
            rubric,
            iter([{"n": n} for n in (1, 0, 2)]),
            folder=tmp_path,
            resume=True,
            on_progress=told.append,
            about=told_about(3),
        )
        last = told[-1]
        assert (last.done, last.kept, last.total, last.eta) == (3, 2, None, None)


def told_about(rows):
    return RunAbout.of("score", data={"rows": rows})


class TestBrokenInput:
    async def test_rows_before_a_broken_one_are_scored_first(self, tmp_path):
        """And the line is named."""
        path = tmp_path / "rows.jsonl"
        path.write_text('{"completion": "Paris"}\n{"completion": "Rome"}\n{"compl\n')
        with pytest.raises(TableError, match=r"rows\.jsonl:3"):
            await score_rows(PARIS, rows_of(path), folder=tmp_path / "run")
        run = Run.open(tmp_path / "run")
        assert (len(run), run.summary().complete) == (2, False)

    async def test_other_data_is_not_gone_on_with(self, tmp_path):
        """A line was added to the file."""
        path = tmp_path / "rows.jsonl"
        path.write_text('{"completion": "Paris"}\n')

        def about():
            return RunAbout.of("score", data=data_about(path))

        await score_rows(PARIS, rows_of(path), folder=tmp_path / "run", about=about())
        path.write_text('{"completion": "Paris"}\n{"completion": "Rome"}\n')
        with pytest.raises(RunError, match="the data have changed"):
            await score_rows(
                PARIS, rows_of(path), folder=tmp_path / "run", about=about(), resume=True
            )


@pytest.mark.parametrize("row", ["Paris", ["Paris"], 7])
async def test_what_is_no_mapping_is_no_row(row):
    """It is named, with its number."""
    with pytest.raises(RunError, match=r"row 1 is .*: give a mapping"):
        await score_rows(PARIS, [{"completion": "Paris"}, row])


async def test_nothing_at_once_is_refused():
    """It would wait for ever."""
    with pytest.raises(ValueError, match="max_concurrent is 0: give 1 or more"):
        await score_rows(PARIS, [], max_concurrent=0)


async def test_what_json_cannot_hold_is_told_to_whoever_watches():
    """As it is saved."""
    seen = []
    summary = await score_rows(PARIS, texts("Paris", n=float("nan")), on_row=seen.append)
    assert (seen[0].altered, summary.altered) == (("n",), 1)


async def test_something_else_with_a_score_is_a_rubric_too(tmp_path):
    """Its reports are saved as they are."""

    class Half:
        async def score(self, rollouts):
            return await Rubric([lambda: 0.5], name="inner").score(rollouts)

    await score_rows(Half(), texts("x", "y"), folder=tmp_path)
    run = Run.open(tmp_path)
    assert [row.score for row in run.rows()] == [0.5, 0.5]
    assert [line.name for row in run.rows() for line in row.report.lines] == ["check_1", "check_1"]
    assert run.about.rubric.source is None


async def test_a_group_of_rubrics_is_saved_and_made_again(tmp_path):
    """Reports are those of the group."""
    group = RubricGroup([PARIS, Rubric.from_dict([{"check": {"contains": "in"}, "weight": 2}])])
    rows = texts("in Paris", "Rome")
    await score_rows(group, rows, folder=tmp_path)
    run = Run.open(tmp_path)
    assert [row.report for row in run.rows()] == await group.score(rows)
    assert RubricGroup.from_dict(run.about.rubric.source).content_hash == group.content_hash


async def test_a_completion_that_is_null_is_an_error_and_not_an_empty_text(tmp_path):
    """Nothing was written, so there is nothing to score; an empty text is one."""
    rubric = Rubric.from_dict([{"check": {"max_words": 3}}])
    summary = await score_rows(rubric, texts(None, "", "one two"), folder=tmp_path / "run")
    assert (summary.scored, summary.unscored) == (2, 1)
    assert summary.errors == {"NoCompletion": 1}
    assert list(summary.criteria) == ["max_words"]
    assert Run.open(tmp_path / "run").row("0").errors == {
        "rollout": "NoCompletion: the completion of example 0 is null: write it, or leave the row out"
    }


async def test_a_group_is_compared_without_a_completion_that_is_null(tmp_path):
    """The longest of those that were written wins."""

    def longest(completions):
        return [float(len(text) == max(map(len, completions))) for text in completions]

    rows = texts("a", None, "abc", example_id="x")
    await score_rows(Rubric([longest]), rows, folder=tmp_path / "run")
    rewards = [row.reward for row in Run.open(tmp_path / "run").rows()]
    assert rewards == [0.0, None, 1.0]


async def test_a_run_says_which_models_answered(tmp_path):
    """By the ids that the endpoint gave them, also when it was stopped."""
    rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    with ModelServer("MET") as server:
        grader = PerCriterionGrader(model=model_of(server.model, cache=None))
        rows = iter(texts("please", "thanks"))
        stop = iter([False, True])
        await score_rows(
            rubric, rows, folder=tmp_path / "run", judge=grader, stopping=lambda: next(stop)
        )
    assert Run.open(tmp_path / "run").about.resolved == ("test-2026-01-01",)


@pytest.mark.parametrize("sample", [2**63, str(2**70), 2**53])
async def test_a_sample_that_no_table_holds_is_refused(sample):
    """Before it is in a run that no page could show."""
    with pytest.raises(RunError, match=r"a row has the sample .*: give at most 9007199254740991"):
        await score_rows(PARIS, texts("Paris", id="a", sample=sample))


def judged(**settings):
    return PerCriterionGrader(FakeModel(lambda system, user: "MET"), **settings)


@pytest.mark.parametrize(
    "other",
    [
        judged(degenerate="ask"),
        judged(system_prompt="Judge kindly."),
        judged(length_penalty=LengthPenalty()),
        Samples(judged(), 3),
        Guarded(judged()),
    ],
    ids=["degenerate", "words", "length", "samples", "guard"],
)
async def test_a_judge_with_other_settings_does_not_go_on_with_a_run(tmp_path, other):
    """What can change an answer is part of who judges."""
    rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    await score_rows(rubric, texts("Please."), folder=tmp_path, judge=judged())
    with pytest.raises(RunError, match=r"holds another run.*judge was .*, and is "):
        await score_rows(rubric, texts("Please."), folder=tmp_path, judge=other, resume=True)


async def test_two_prompts_of_ones_own_are_two_judges(tmp_path):
    """Though both are called the judge's own words."""
    rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    kind, stern = judged(system_prompt="Judge kindly."), judged(system_prompt="Judge sternly.")
    await score_rows(rubric, texts("Please."), folder=tmp_path, judge=kind)
    with pytest.raises(RunError, match="holds another run"):
        await score_rows(rubric, texts("Please."), folder=tmp_path, judge=stern, resume=True)
