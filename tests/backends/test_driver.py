"""Shards give the run that one process would give, however often it was broken off."""

import json
import os
from collections import Counter

import pytest

from assay import Criterion, Rubric, rows_of
from assay.backends import given, score_shards
from assay.models import dry_run
from assay.runs import Run, RunError, score_rows


class TestSameRun:
    async def test_it_is_the_run_of_one_process(
        self, maker, table, tmp_path, here, alone, rows_of_run
    ):
        """Row for row, in the same order, with the same summary."""
        path = table(95)
        folder, expected = await alone(path)
        seen = []
        found = score_shards(
            maker, [path], tmp_path / "many", backend=here(), rows=10, on_progress=seen.append
        )
        assert rows_of_run(tmp_path / "many") == rows_of_run(folder)
        keys = [row.key for row in Run.open(tmp_path / "many").rows()]
        assert keys == [(str(n), 0) for n in range(95)]
        assert found == expected == Run.open(tmp_path / "many").summary()
        assert (seen[-1].done, seen[-1].total, seen[-1].errors) == (95, 95, 9)
        assert [path.name for path in (tmp_path / "many").iterdir()] == ["run.assay"]

    @pytest.mark.parametrize(
        "columns",
        [
            {"id": lambda n: f"q-{n}"},
            {"example_id": lambda n: n // 4},
            {"id": lambda n: n % 7},
            {"id": lambda n: ["a", 'b"sample":0,', "ü\n"][n % 3]},
            {"id": lambda n: n % 4, "sample": lambda n: n // 4},
            {"sample": lambda n: 3},
        ],
        ids=["alone", "together", "apart", "odd", "sampled", "unnamed"],
    )
    async def test_rows_have_the_keys_of_the_whole(
        self, maker, table, tmp_path, here, alone, rows_of_run, columns
    ):
        """Also where the rollouts of an example are in several shards, and the summary knows it."""
        path = table(40, **columns)
        folder, expected = await alone(path)
        found = score_shards(maker, [path], tmp_path / "many", backend=here(), rows=6)
        assert rows_of_run(tmp_path / "many") == rows_of_run(folder)
        assert found == expected

    def test_some_rows_with_an_id_and_others_without_are_refused(self, maker, tmp_path, here):
        """As in one process, where they would be told apart within a file."""
        path = tmp_path / "rows.jsonl"
        rows = [{"completion": "a", "answer": 1}, {"id": 0, "completion": "b", "answer": 1}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with pytest.raises(
            RunError, match=r"shard 1 have a column 'id', and those of shard 0 have none"
        ):
            score_shards(maker, [path], tmp_path / "run", backend=here(), rows=1)

    def test_a_sample_that_comes_twice_is_refused(self, maker, table, tmp_path, here):
        path = table(6, id=lambda n: n % 3, sample=lambda n: 0)
        with pytest.raises(RunError, match="row 3 repeats example '0', sample 0: give each row"):
            score_shards(maker, [path], tmp_path / "run", backend=here(), rows=3)

    def test_rollouts_to_compare_have_to_stand_together(self, table, tmp_path, here):
        """A group function sees all of an example; what lies in two shards it would not."""

        def longest(completions) -> list[float]:
            most = max(map(len, completions))
            return [len(completion) / most for completion in completions]

        make = given(Rubric([longest]))
        together = table(8, example_id=lambda n: n // 4)
        found = score_shards(make, [together], tmp_path / "one", backend=here(), rows=2)
        assert found.examples == 2
        apart = table(8, example_id=lambda n: n % 2)
        with pytest.raises(RunError, match=r"'longest' compares .* sort the rows by example"):
            score_shards(make, [apart], tmp_path / "two", backend=here(), rows=1)

    def test_an_empty_file_is_an_empty_run(self, maker, tmp_path, here):
        (tmp_path / "rows.jsonl").write_text("")
        found = score_shards(maker, [tmp_path / "rows.jsonl"], tmp_path / "run", backend=here())
        assert (found.rollouts, found.complete) == (0, True)


class TestGoingOn:
    def test_stopped_and_resumed_it_is_the_same_run(
        self, maker, table, tmp_path, here, rows_of_run
    ):
        """Stopped after two of six shards; only the others are begun again."""
        path = table(60)
        whole = score_shards(maker, [path], tmp_path / "whole", backend=here(), rows=10)
        backend = here()
        first = score_shards(
            maker,
            [path],
            tmp_path / "run",
            backend=backend,
            rows=10,
            stopping=lambda: len(backend.begun) == 2,
        )
        assert (first.complete, first.rollouts) == (False, 20)
        rest, seen = here(), []
        again = score_shards(
            maker,
            [path],
            tmp_path / "run",
            backend=rest,
            rows=10,
            resume=True,
            on_progress=seen.append,
        )
        assert rows_of_run(tmp_path / "run") == rows_of_run(tmp_path / "whole")
        assert again == whole
        # Shards 0 and 1 have a row that failed, so they are gone on with as well.
        assert rest.begun == [0, 1, 2, 3, 4, 5]
        assert seen[-1].done == 60

    def test_only_what_failed_is_done_again(self, table, tmp_path, here, rows_of_run):
        """The judge was away for 7 and 17; when it is back, two rows are scored and no other."""

        class Judge(CountingCheck):
            is_away = True

            def __call__(self, completion):
                self.count(completion)
                if self.is_away and completion.endswith("7"):
                    raise ConnectionError("away")
                return 1.0

        path, judge = table(30), Judge()
        make = given(Rubric([Criterion(check=judge, name="judge")]))
        options = {"rows": 10, "resume": True}
        found = score_shards(make, [path], tmp_path / "run", backend=here(make=make), **options)
        assert (found.unscored, found.complete) == (3, True)
        judge.is_away = False
        found = score_shards(make, [path], tmp_path / "run", backend=here(make=make), **options)
        assert (found.rollouts, found.unscored) == (30, 0)
        assert judge.calls.total() == 33
        assert len(rows_of_run(tmp_path / "run")) == 30
        assert not (tmp_path / "run" / "parts").exists()

    def test_shards_may_be_larger_when_it_is_resumed(
        self, maker, table, tmp_path, here, rows_of_run
    ):
        """What is finished is known by its rows."""
        path = table(40, id=lambda n: n % 11)
        score_shards(maker, [path], tmp_path / "whole", backend=here(), rows=10)
        with pytest.raises(KeyboardInterrupt):
            score_shards(maker, [path], tmp_path / "run", backend=here(2), rows=5)
        found = score_shards(maker, [path], tmp_path / "run", backend=here(), rows=7, resume=True)
        assert found.rollouts == 40
        assert rows_of_run(tmp_path / "run") == rows_of_run(tmp_path / "whole")

    def test_what_is_finished_is_not_begun_again(self, table, tmp_path, here):
        """Nothing failed, so there is nothing to do."""
        make, path = given(Rubric([len_of])), table(9)
        whole = score_shards(make, [path], tmp_path / "run", backend=here(), rows=3)
        backend = here()
        again = score_shards(make, [path], tmp_path / "run", backend=backend, rows=3, resume=True)
        assert (again, backend.begun) == (whole, [])

    async def test_a_finished_run_goes_on_in_one_process_too(
        self, maker, table, tmp_path, here, rows_of_run
    ):
        """It is a run like any other; and many workers go on with that of one process."""
        path, folder = table(20), tmp_path / "run"
        score_shards(maker, [path], folder, backend=here(), rows=10)
        before = rows_of_run(folder)
        about = Run.open(folder).about
        summary = await score_rows(
            maker()[0], rows_of(path), folder=folder, about=about, resume=True
        )
        assert summary.rollouts == 20
        assert rows_of_run(folder) == before
        again = score_shards(maker, [path], folder, backend=here(), rows=10, resume=True)
        assert again.rollouts == 20
        assert rows_of_run(folder) == before

    def test_the_data_may_have_moved(self, maker, table, tmp_path, here):
        """It is known by what is in it."""
        path = table(20)
        with pytest.raises(KeyboardInterrupt):
            score_shards(maker, [path], tmp_path / "run", backend=here(1), rows=5)
        moved = path.rename(tmp_path / "moved.jsonl")
        found = score_shards(maker, [moved], tmp_path / "run", backend=here(), rows=5, resume=True)
        assert found.rollouts == 20

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"make": given(Rubric([lambda completion: 1]))}, "the rubric has changed"),
            ({"mapping": {"completion": "prompt"}}, "map was {}, and is {'completion': 'prompt'}"),
            ({"resume": False}, "holds a run already"),
        ],
    )
    def test_another_run_cannot_go_on(self, maker, table, tmp_path, here, change, why):
        path = table(20)
        with pytest.raises(KeyboardInterrupt):
            score_shards(maker, [path], tmp_path / "run", backend=here(0), rows=5)
        options = {"make": maker, "rows": 5, "resume": True, "backend": here(), **change}
        with pytest.raises(RunError, match=why):
            score_shards(paths=[path], folder=tmp_path / "run", **options)


class TestMishaps:
    def test_rows_that_a_killed_worker_finished_are_kept(self, table, tmp_path, here, rows_of_run):
        """Killed at row 15, in the second shard: rows 10 to 14 are not scored again."""

        class Check(CountingCheck):
            def __call__(self, completion):
                self.count(completion)
                if completion == "it is 15" and self.calls[completion] == 1:
                    raise KeyboardInterrupt
                return len(completion)

        path, check = table(30), Check()
        calls = check.calls
        make = given(Rubric([Criterion(check=check, name="check")]))
        with pytest.raises(KeyboardInterrupt):
            score_shards(make, [path], tmp_path / "run", backend=here(make=make), rows=10)
        again = calls.copy()
        backend = here(make=make)
        score_shards(make, [path], tmp_path / "run", backend=backend, rows=10, resume=True)
        assert len(rows_of_run(tmp_path / "run")) == 30
        saved = [n for n in range(30) if calls[f"it is {n}"] == again[f"it is {n}"]]
        # Rows are written in chunks of 1, 2, 4, …: 10, then 11 and 12; 13 to 16 were under way.
        assert saved[:13] == list(range(13))

    def test_a_part_whose_driver_was_killed_is_not_scored_again(self, table, tmp_path, here):
        """It is merged when the run is resumed."""
        path, check = table(20), CountingCheck()
        make = given(Rubric([Criterion(check=check, name="check")]))

        class Killed(here):
            def result(self, job, task):
                super().result(job, task)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            score_shards(make, [path], tmp_path / "run", backend=Killed(make=make), rows=10)
        backend = here(make=make)
        found = score_shards(make, [path], tmp_path / "run", backend=backend, rows=10, resume=True)
        assert (found.rollouts, check.calls.total()) == (20, 20)

    def test_a_part_that_is_damaged_is_done_again(self, maker, table, tmp_path, here):
        """A killed worker, or a bad disk, may leave anything."""
        path, folder = table(20), tmp_path / "run"
        with pytest.raises(KeyboardInterrupt):
            score_shards(maker, [path], folder, backend=here(2), rows=5)
        part = folder / "parts" / "000000010-000000015-0123abcd"
        part.mkdir()
        (part / "run.assay").write_bytes(b"no run" * 1000)
        found = score_shards(maker, [path], folder, backend=here(), rows=5, resume=True)
        assert found.rollouts == 20
        assert not (folder / "parts").exists()

    def test_data_that_shrinks_meanwhile_is_found_out(self, maker, table, tmp_path, here):
        path = table(20)

        class Truncating(here):
            def result(self, job, task):
                os.truncate(path, 5)
                return super().result(job, task)

        with pytest.raises(RunError, match="4 of 4 shards could not be scored"):
            score_shards(maker, [path], tmp_path / "run", backend=Truncating(), rows=5)

    def test_a_bad_line_stops_its_shard_alone(self, maker, tmp_path, here):
        path = tmp_path / "rows.jsonl"
        good = json.dumps({"completion": "it is 1", "answer": 1})
        path.write_text("\n".join([good] * 10 + ["{"] + [good] * 9) + "\n")
        with pytest.raises(
            RunError, match=r"1 of 2 shards .* shard 1: .*rows\.jsonl:11: not valid JSON"
        ):
            score_shards(maker, [path], tmp_path / "run", backend=here(), rows=10)

    def test_a_rubric_that_cannot_travel_says_so(self, table, tmp_path):
        file = (tmp_path / "open").open("w")

        def writes(completion):
            return file.write(completion)

        with file, pytest.raises(ValueError, match=r"cannot be sent .* in a function of a module"):
            score_shards(given(Rubric([writes])), [table(1)], tmp_path / "run")


def test_a_dry_run_has_no_workers(maker, table, tmp_path, here):
    """They would ask for real."""
    with dry_run(), pytest.raises(RunError, match="a dry run has no workers"):
        score_shards(maker, [table(3)], tmp_path / "run", backend=here())


def len_of(completion):
    return len(completion)


class CountingCheck:
    """A check that counts its calls, which are no part of what identifies it."""

    def __init__(self):
        self.calls = Counter()

    def __getstate__(self):
        return {}

    def __call__(self, completion):
        self.count(completion)
        return 1.0

    def count(self, completion):
        self.calls[completion] += 1
