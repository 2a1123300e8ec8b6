"""`score_rows` scores rows and writes a run."""

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


def saved_lines(folder):
    """Return the saved JSON of each rollout, in the order in which it was saved."""
    return [data for (data,) in RunFile(folder).select("SELECT data FROM rollouts ORDER BY id")]


async def test_rows_are_scored_and_saved_in_order(tmp_path):
    """Two of three completions name Paris."""
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


async def test_without_a_folder_rows_are_only_passed_to_on_row():
    """The summary is the same."""
    seen = []
    summary = await score_rows(PARIS, texts("Paris", "Rome"), on_row=seen.append)
    assert [(row.example, row.reward) for row in seen] == [("0", 1.0), ("1", 0.0)]
    assert summary.score.mean == 0.5


async def test_scoring_rows_in_chunks_gives_the_same_reports_as_all_at_once(tmp_path):
    rubric = Rubric([lambda n: n % 7 / 7, lambda n: n % 2 == 0], weights=[1, 0.5])
    rows = [{"n": n} for n in range(2500)]
    await score_rows(rubric, rows, folder=tmp_path)
    assert [row.report for row in Run.open(tmp_path).rows()] == await rubric.score(rows)


async def test_an_empty_input_gives_an_empty_run(tmp_path):
    """The run can be started again."""
    summary = await score_rows(PARIS, [], folder=tmp_path)
    assert (summary.rollouts, summary.complete, summary.score.mean) == (0, True, None)
    assert (await score_rows(PARIS, texts("Paris"), folder=tmp_path)).rollouts == 1


class TestKeys:
    async def score_and_get_keys(self, rows):
        seen = []
        await score_rows(Rubric([lambda: 1.0]), rows, on_row=lambda row: seen.append(row.key))
        return seen

    async def test_the_key_of_an_example_is_its_id(self):
        """`example_id` takes precedence over `id`; ids become text."""
        rows = [{"example_id": 7, "id": "x"}, {"id": 8.5}, {"example_id": None, "id": "z"}]
        assert await self.score_and_get_keys(rows) == [("7", 0), ("8.5", 0), ("z", 0)]

    async def test_rollouts_of_one_example_are_numbered_in_input_order(self):
        """They need not be adjacent."""
        assert await self.score_and_get_keys([{"id": name} for name in "abaab"]) == [
            ("a", 0),
            ("b", 0),
            ("a", 1),
            ("a", 2),
            ("b", 1),
        ]

    async def test_the_sample_number_may_be_given_in_a_column(self):
        """As a number, or as text in a CSV file. A column with another meaning is ignored."""
        assert await self.score_and_get_keys(
            [{"id": "a", "sample": 4}, {"id": "a", "sample": "2"}]
        ) == [
            ("a", 4),
            ("a", 2),
        ]
        assert await self.score_and_get_keys([{"id": "a", "sample": "blood"}]) == [("a", 0)]

    async def test_the_key_of_a_row_without_an_id_is_its_number(self):
        """From 0."""
        assert await self.score_and_get_keys([{}, {"sample": 3}][:1]) == [("0", 0)]

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
    async def test_two_rows_with_the_same_key_are_refused(self, rows, words):
        """The error names the row."""
        with pytest.raises(RunError, match=words):
            await self.score_and_get_keys(rows)


class TestChecks:
    async def test_changes_that_a_check_makes_to_the_state_are_not_saved(self, tmp_path):
        """A later check sees them; the saved row is unchanged, nested values included."""

        def change_state(state, info):
            state["found"] = 3
            info["seen"] = True
            return 1.0

        rubric = Rubric([change_state, lambda state: state["found"]])
        await score_rows(rubric, [{"completion": "x", "info": {}}], folder=tmp_path)
        [row] = Run.open(tmp_path).rows()
        assert (row.reward, row.fields) == (4.0, {"completion": "x", "info": {}})

    async def test_a_check_that_fails_is_an_error_of_its_row(self, tmp_path):
        """The others are scored, and resuming scores that row again."""
        outage = tmp_path / "down"
        outage.touch()

        def check(completion):
            if completion == "Rome" and outage.exists():
                raise OSError("the disk is away")
            return 1.0

        rubric = Rubric([check])
        rows = texts("Paris", "Rome", "Oslo")
        folder = tmp_path / "run"
        summary = await score_rows(rubric, rows, folder=folder)
        assert (summary.unscored, summary.errors) == (1, {"OSError": 1})
        outage.unlink()
        seen = []
        summary = await score_rows(rubric, rows, folder=folder, resume=True, on_row=seen.append)
        assert [row.example for row in seen] == ["1"]
        assert (summary.rollouts, summary.unscored) == (3, 0)

    async def test_a_rubric_that_does_not_fit_the_data_leaves_every_row_unscored(self, tmp_path):
        """Each row has the error, which the summary counts."""
        await score_rows(Rubric([lambda price: 1.0]), texts("x", "y"), folder=tmp_path)
        rows = list(Run.open(tmp_path).rows())
        assert [row.reward for row in rows] == [None, None]
        for row in rows:
            assert "needs an argument 'price'" in row.errors["check_1"]

    async def test_a_field_that_a_later_row_lacks_is_an_error_of_that_row(self, tmp_path):
        """The error is the same if the row is scored alone."""
        rubric = Rubric([Criterion(check=lambda price: price, name="cheap"), lambda: 1.0])
        rows = [{"price": 1.0}, {}, {"price": 0.5}]
        await score_rows(rubric, rows, folder=tmp_path)
        scored_with_others = Run.open(tmp_path).row("1")
        assert list(scored_with_others.errors) == ["cheap"]
        assert scored_with_others.errors["cheap"].startswith("SignatureError: ")
        assert "'price'" in scored_with_others.errors["cheap"]
        await score_rows(rubric, rows, folder=tmp_path, resume=True)
        assert Run.open(tmp_path).row("1").report == scored_with_others.report

    async def test_on_error_raise_stops_the_run(self, tmp_path):
        """Rows scored before are saved."""
        rubric = Rubric([lambda n: 1 / n], on_error="raise")
        with pytest.raises(ZeroDivisionError):
            await score_rows(rubric, [{"n": 1}, {"n": 0}], folder=tmp_path)
        assert len(Run.open(tmp_path)) == 1

    async def test_async_checks_run_concurrently(self):
        """Four checks that wait for each other all finish."""
        gate = asyncio.Barrier(4)

        async def wait_for_others():
            await gate.wait()
            return 1.0

        summary = await asyncio.wait_for(score_rows(Rubric([wait_for_others]), [{}] * 4), 30)
        assert summary.score.mean == 1.0

    async def test_at_most_max_concurrent_rows_are_scored_at_a_time(self):
        """Three of ten at most."""
        running = most = 0

        async def count_running():
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return 1.0

        await score_rows(Rubric([count_running]), [{}] * 10, max_concurrent=3)
        assert most == 3


class TestGroups:
    RUBRIC = Rubric(
        [Criterion(check=lambda completions: [len(completions)] * len(completions), name="size")]
    )

    async def test_rollouts_of_an_example_are_compared(self, tmp_path):
        """Two rollouts of a, one of b, three of c."""
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

    async def test_rollouts_of_an_example_that_are_not_adjacent_are_refused(self):
        """Comparing them would require keeping all rows in memory."""
        with pytest.raises(RunError, match="those of 'a' are not adjacent: sort the rows"):
            await score_rows(self.RUBRIC, [{"id": name, "completion": ""} for name in "aba"])

    async def test_rows_without_an_example_id_cannot_be_compared(self):
        with pytest.raises(RunError, match="row 0 does not name its example"):
            await score_rows(self.RUBRIC, texts("x", "y"))

    async def test_resuming_compares_the_whole_group_and_saves_the_failed_rollout(self, tmp_path):
        """One of two failed: both are compared again, and only the failed one is written."""
        outage = tmp_path / "down"
        outage.touch()

        def check(completions):
            fails = outage.exists()
            return [None if fails and text == "bad" else len(completions) for text in completions]

        rubric = Rubric([Criterion(check=check, name="size")])
        rows = [{"id": "a", "completion": "good"}, {"id": "a", "completion": "bad"}]
        folder = tmp_path / "run"
        await score_rows(rubric, rows, folder=folder)
        outage.unlink()
        summary = await score_rows(rubric, rows, folder=folder, resume=True)
        assert len(saved_lines(folder)) == 2
        assert (summary.rollouts, summary.reward.mean) == (2, 2.0)


class TestJudged:
    RUBRIC = Rubric([{"requirement": "Names Paris"}])

    async def test_every_row_has_its_spending(self, tmp_path):
        """One call for each row; the summary says that its price is unknown."""
        with ModelServer(lambda system, user: "MET") as server, budget() as outer_budget:
            grader = PerCriterionGrader(model=model_of(server.model))
            summary = await score_rows(
                self.RUBRIC, texts("a b", "c d"), folder=tmp_path, judge=grader
            )
        rows = list(Run.open(tmp_path).rows())
        assert [row.spent.calls for row in rows] == [1, 1]
        assert all(row.spent.prompt > 0 and row.timing["scoring"] > 0 for row in rows)
        assert (summary.spent.calls, outer_budget.calls) == (2, 2)
        assert summary.spent.tokens == outer_budget.usage.prompt + outer_budget.usage.completion

    async def test_a_row_is_saved_as_soon_as_it_is_scored(self, tmp_path):
        """While another is still being judged."""
        slow, saved = asyncio.Event(), []

        async def answer(system, user):
            if "slow" in user:
                await slow.wait()
            return "MET"

        def on_row(row):
            saved.append([json.loads(line)["example"] for line in saved_lines(tmp_path)])
            slow.set()

        grader = PerCriterionGrader(FakeModel(answer))
        rows = texts("a slow one", "a quick one")
        await score_rows(self.RUBRIC, rows, folder=tmp_path, judge=grader, on_row=on_row)
        assert saved == [["1"], ["1", "0"]]

    async def test_a_row_whose_judge_failed_is_scored_again_when_resumed(self, tmp_path):
        """Only that row is judged again."""
        model = FakeModel([ConnectionError("away"), "MET", "UNMET"])
        rows = texts("first text", "second text")
        options = {"folder": tmp_path, "judge": PerCriterionGrader(model), "max_concurrent": 1}
        first = await score_rows(self.RUBRIC, rows, **options)
        second = await score_rows(self.RUBRIC, rows, resume=True, **options)
        assert (first.unscored, second.unscored, len(model.calls)) == (1, 0, 3)
        assert {row.example: row.score for row in Run.open(tmp_path).rows()} == {"0": 0.0, "1": 1.0}
        assert Run.open(tmp_path).about.judge.startswith("PerCriterionGrader(")

    async def test_a_run_records_the_prompt_of_its_judge(self, tmp_path):
        """Built-in prompts by name and version, or a custom prompt; resuming with another prompt is refused."""
        shipped = PerCriterionGrader(FakeModel("MET"))
        custom = PerCriterionGrader(FakeModel("MET"), system_prompt="Be strict.")
        await score_rows(self.RUBRIC, texts("x"), folder=tmp_path / "shipped", judge=shipped)
        await score_rows(self.RUBRIC, texts("x"), folder=tmp_path / "own", judge=custom)
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

    async def test_a_judged_rubric_without_a_judge_is_refused_immediately(self, tmp_path):
        """The folder can still be used."""
        with pytest.raises(RubricError, match="no judge was named"):
            await score_rows(self.RUBRIC, texts("x"), folder=tmp_path)
        grader = PerCriterionGrader(FakeModel())
        await score_rows(self.RUBRIC, texts("some text"), folder=tmp_path, judge=grader)


class TestStopping:
    async def test_a_stopped_run_finishes_its_current_rows_and_can_be_resumed(self, tmp_path):
        """Stopped after three rows of ten."""
        rows, seen = [{"n": n} for n in range(10)], []
        stopping = lambda: len(seen) >= 3  # noqa: E731
        rubric = Rubric([lambda n: n])
        options = {"folder": tmp_path, "on_row": seen.append}
        summary = await score_rows(rubric, rows, stopping=stopping, **options)
        assert not summary.complete
        assert 3 <= summary.rollouts < 10
        resumed = await score_rows(rubric, rows, resume=True, **options)
        assert (resumed.rollouts, resumed.complete, len(seen)) == (10, True, 10)

    async def test_a_stopped_run_waits_for_rows_in_flight(self, tmp_path):
        """Two rows are being judged when it is stopped; both are saved, and no third is started."""
        started = asyncio.Event()

        async def answer(system, user):
            started.set()
            await asyncio.sleep(0)
            return "MET"

        rubric = Rubric([{"requirement": "Is so"}], judge=PerCriterionGrader(FakeModel(answer)))
        summary = await score_rows(
            rubric,
            texts(*[f"text {n}" for n in range(50)]),
            folder=tmp_path,
            stopping=started.is_set,
            max_concurrent=2,
        )
        assert summary.rollouts == len(saved_lines(tmp_path)) == 2
        assert summary.unscored == 0

    async def test_a_cancelled_run_keeps_finished_rows(self, tmp_path):
        """As after Ctrl-C."""
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
        assert len(saved_lines(folder)) == 1
        assert (await score_rows(rubric, rows, folder=folder, resume=True)).rollouts == 4


class TestProgress:
    async def test_progress_is_reported_at_least_at_the_end(self, tmp_path):
        """With the number of done rows, errors, and the remaining time."""
        updates = []
        rubric = Rubric([lambda n: 1 / n])
        await score_rows(
            rubric, [{"n": n} for n in (1, 0, 2)], folder=tmp_path, on_progress=updates.append
        )
        last = updates[-1]
        assert (last.done, last.total, last.errors, last.unscored, last.eta) == (3, 3, 1, 1, 0.0)
        await score_rows(
            rubric,
            iter([{"n": n} for n in (1, 0, 2)]),
            folder=tmp_path,
            resume=True,
            on_progress=updates.append,
            about=about_data_with(3),
        )
        last = updates[-1]
        assert (last.done, last.kept, last.total, last.eta) == (3, 2, None, None)


def about_data_with(rows):
    return RunAbout.of("score", data={"rows": rows})


class TestBrokenInput:
    async def test_rows_before_a_broken_one_are_scored_first(self, tmp_path):
        """The error names the line."""
        path = tmp_path / "rows.jsonl"
        path.write_text('{"completion": "Paris"}\n{"completion": "Rome"}\n{"compl\n')
        with pytest.raises(TableError, match=r"rows\.jsonl:3"):
            await score_rows(PARIS, rows_of(path), folder=tmp_path / "run")
        run = Run.open(tmp_path / "run")
        assert (len(run), run.summary().complete) == (2, False)

    async def test_a_run_cannot_be_resumed_with_other_data(self, tmp_path):
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
async def test_a_row_that_is_not_a_mapping_is_refused(row):
    """The error names its number."""
    with pytest.raises(RunError, match=r"row 1 is .*: give a mapping"):
        await score_rows(PARIS, [{"completion": "Paris"}, row])


async def test_max_concurrent_0_is_refused():
    """It would wait forever."""
    with pytest.raises(ValueError, match="max_concurrent is 0: give 1 or more"):
        await score_rows(PARIS, [], max_concurrent=0)


async def test_a_value_that_json_cannot_hold_is_marked_in_the_row_passed_to_on_row():
    """As in the saved row."""
    seen = []
    summary = await score_rows(PARIS, texts("Paris", n=float("nan")), on_row=seen.append)
    assert (seen[0].altered, summary.altered) == (("n",), 1)


async def test_any_object_with_a_score_method_can_be_used(tmp_path):
    """Its reports are saved as they are."""

    class Half:
        async def score(self, rollouts):
            return await Rubric([lambda: 0.5], name="inner").score(rollouts)

    await score_rows(Half(), texts("x", "y"), folder=tmp_path)
    run = Run.open(tmp_path)
    assert [row.score for row in run.rows()] == [0.5, 0.5]
    assert [line.name for row in run.rows() for line in row.report.lines] == ["check_1", "check_1"]
    assert run.about.rubric.source is None


async def test_a_rubric_group_is_saved_and_can_be_rebuilt(tmp_path):
    """Reports are those of the group."""
    group = RubricGroup([PARIS, Rubric.from_dict([{"check": {"contains": "in"}, "weight": 2}])])
    rows = texts("in Paris", "Rome")
    await score_rows(group, rows, folder=tmp_path)
    run = Run.open(tmp_path)
    assert [row.report for row in run.rows()] == await group.score(rows)
    assert RubricGroup.from_dict(run.about.rubric.source).content_hash == group.content_hash


async def test_a_null_completion_is_an_error_but_an_empty_one_is_scored(tmp_path):
    rubric = Rubric.from_dict([{"check": {"max_words": 3}}])
    summary = await score_rows(rubric, texts(None, "", "one two"), folder=tmp_path / "run")
    assert (summary.scored, summary.unscored) == (2, 1)
    assert summary.errors == {"NoCompletion": 1}
    assert list(summary.criteria) == ["max_words"]
    assert Run.open(tmp_path / "run").row("0").errors == {
        "rollout": "NoCompletion: the completion of example 0 is null: write it, or leave the row out"
    }


async def test_a_null_completion_is_left_out_of_its_group(tmp_path):
    """The longest of the others wins."""

    def longest(completions):
        return [float(len(text) == max(map(len, completions))) for text in completions]

    rows = texts("a", None, "abc", example_id="x")
    await score_rows(Rubric([longest]), rows, folder=tmp_path / "run")
    rewards = [row.reward for row in Run.open(tmp_path / "run").rows()]
    assert rewards == [0.0, None, 1.0]


async def test_a_run_records_the_model_ids_of_the_endpoint(tmp_path):
    """Also if it was stopped."""
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
async def test_a_sample_number_beyond_the_supported_range_is_refused(sample):
    """The viewer could not show it."""
    with pytest.raises(RunError, match=r"a row has the sample .*: give at most 9007199254740991"):
        await score_rows(PARIS, texts("Paris", id="a", sample=sample))


def make_judge(**settings):
    return PerCriterionGrader(FakeModel(lambda system, user: "MET"), **settings)


@pytest.mark.parametrize(
    "other",
    [
        make_judge(degenerate="ask"),
        make_judge(system_prompt="Judge kindly."),
        make_judge(length_penalty=LengthPenalty()),
        Samples(make_judge(), 3),
        Guarded(make_judge()),
    ],
    ids=["degenerate", "words", "length", "samples", "guard"],
)
async def test_a_run_cannot_be_resumed_with_other_judge_settings(tmp_path, other):
    """Every setting that can change a verdict is part of the judge's identity."""
    rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    await score_rows(rubric, texts("Please."), folder=tmp_path, judge=make_judge())
    with pytest.raises(RunError, match=r"holds another run.*judge was .*, and is "):
        await score_rows(rubric, texts("Please."), folder=tmp_path, judge=other, resume=True)


async def test_two_custom_prompts_are_two_judges(tmp_path):
    """Although both are named `own`."""
    rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    kind, stern = (
        make_judge(system_prompt="Judge kindly."),
        make_judge(system_prompt="Judge sternly."),
    )
    await score_rows(rubric, texts("Please."), folder=tmp_path, judge=kind)
    with pytest.raises(RunError, match="holds another run"):
        await score_rows(rubric, texts("Please."), folder=tmp_path, judge=stern, resume=True)
