"""A run in shards equals the run of one process, however often it was interrupted."""

import json
import os
from collections import Counter

import pytest

from assay import Criterion, Rubric, rows_of
from assay.backends import given, score_shards
from assay.models import dry_run
from assay.runs import Run, RunError, score_rows


class TestSameRun:
    async def test_the_run_equals_that_of_one_process(
        self,
        rubric_maker,
        write_rows,
        tmp_path,
        in_process_backend,
        score_in_one_process,
        rows_of_run,
    ):
        """Row for row, in the same order, with the same summary."""
        path = write_rows(95)
        folder, expected = await score_in_one_process(path)
        seen = []
        summary = score_shards(
            rubric_maker,
            [path],
            tmp_path / "many",
            backend=in_process_backend(),
            rows=10,
            on_progress=seen.append,
        )
        assert rows_of_run(tmp_path / "many") == rows_of_run(folder)
        keys = [row.key for row in Run.open(tmp_path / "many").rows()]
        assert keys == [(str(n), 0) for n in range(95)]
        assert summary == expected == Run.open(tmp_path / "many").summary()
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
    async def test_rows_have_the_same_keys_as_in_one_process(
        self,
        rubric_maker,
        write_rows,
        tmp_path,
        in_process_backend,
        score_in_one_process,
        rows_of_run,
        columns,
    ):
        """Also if the rollouts of an example are in several shards; the summary is the same too."""
        path = write_rows(40, **columns)
        folder, expected = await score_in_one_process(path)
        summary = score_shards(
            rubric_maker, [path], tmp_path / "many", backend=in_process_backend(), rows=6
        )
        assert rows_of_run(tmp_path / "many") == rows_of_run(folder)
        assert summary == expected

    def test_rows_with_and_without_an_id_cannot_be_mixed(
        self, rubric_maker, tmp_path, in_process_backend
    ):
        """As in one process, which notices it within a file."""
        path = tmp_path / "rows.jsonl"
        rows = [{"completion": "a", "answer": 1}, {"id": 0, "completion": "b", "answer": 1}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with pytest.raises(
            RunError, match=r"shard 1 have a column 'id', and those of shard 0 have none"
        ):
            score_shards(
                rubric_maker, [path], tmp_path / "run", backend=in_process_backend(), rows=1
            )

    def test_a_repeated_sample_is_refused(
        self, rubric_maker, write_rows, tmp_path, in_process_backend
    ):
        path = write_rows(6, id=lambda n: n % 3, sample=lambda n: 0)
        with pytest.raises(RunError, match="row 3 repeats example '0', sample 0: give each row"):
            score_shards(
                rubric_maker, [path], tmp_path / "run", backend=in_process_backend(), rows=3
            )

    def test_rollouts_to_compare_must_be_adjacent(self, write_rows, tmp_path, in_process_backend):
        """A group function must see all rollouts of an example, so they must be in one shard."""

        def longest(completions) -> list[float]:
            most = max(map(len, completions))
            return [len(completion) / most for completion in completions]

        make = given(Rubric([longest]))
        together = write_rows(8, example_id=lambda n: n // 4)
        summary = score_shards(
            make, [together], tmp_path / "one", backend=in_process_backend(), rows=2
        )
        assert summary.examples == 2
        apart = write_rows(8, example_id=lambda n: n % 2)
        with pytest.raises(RunError, match=r"'longest' compares .* sort the rows by example"):
            score_shards(make, [apart], tmp_path / "two", backend=in_process_backend(), rows=1)

    def test_an_empty_file_is_an_empty_run(self, rubric_maker, tmp_path, in_process_backend):
        (tmp_path / "rows.jsonl").write_text("")
        summary = score_shards(
            rubric_maker, [tmp_path / "rows.jsonl"], tmp_path / "run", backend=in_process_backend()
        )
        assert (summary.rollouts, summary.complete) == (0, True)


class TestResuming:
    def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(
        self, rubric_maker, write_rows, tmp_path, in_process_backend, rows_of_run
    ):
        """Stopped after two of six shards."""
        path = write_rows(60)
        whole = score_shards(
            rubric_maker, [path], tmp_path / "whole", backend=in_process_backend(), rows=10
        )
        backend = in_process_backend()
        first = score_shards(
            rubric_maker,
            [path],
            tmp_path / "run",
            backend=backend,
            rows=10,
            stopping=lambda: len(backend.started_shards) == 2,
        )
        assert (first.complete, first.rollouts) == (False, 20)
        second_backend, seen = in_process_backend(), []
        resumed = score_shards(
            rubric_maker,
            [path],
            tmp_path / "run",
            backend=second_backend,
            rows=10,
            resume=True,
            on_progress=seen.append,
        )
        assert rows_of_run(tmp_path / "run") == rows_of_run(tmp_path / "whole")
        assert resumed == whole
        # Shards 0 and 1 have a failed row, so they are started again as well.
        assert second_backend.started_shards == [0, 1, 2, 3, 4, 5]
        assert seen[-1].done == 60

    def test_only_failed_rows_are_scored_again(
        self, write_rows, tmp_path, in_process_backend, rows_of_run
    ):
        """The judge fails for 7 and 17; once it works, only these rows are scored."""

        class Judge(CountingCheck):
            is_away = True

            def __call__(self, completion):
                self.count(completion)
                if self.is_away and completion.endswith("7"):
                    raise ConnectionError("away")
                return 1.0

        path, judge = write_rows(30), Judge()
        make = given(Rubric([Criterion(check=judge, name="judge")]))
        options = {"rows": 10, "resume": True}
        summary = score_shards(
            make, [path], tmp_path / "run", backend=in_process_backend(make=make), **options
        )
        assert (summary.unscored, summary.complete) == (3, True)
        judge.is_away = False
        summary = score_shards(
            make, [path], tmp_path / "run", backend=in_process_backend(make=make), **options
        )
        assert (summary.rollouts, summary.unscored) == (30, 0)
        assert judge.calls.total() == 33
        assert len(rows_of_run(tmp_path / "run")) == 30
        assert not (tmp_path / "run" / "parts").exists()

    def test_a_run_can_be_resumed_with_larger_shards(
        self, rubric_maker, write_rows, tmp_path, in_process_backend, rows_of_run
    ):
        """Finished rows are known by their keys."""
        path = write_rows(40, id=lambda n: n % 11)
        score_shards(
            rubric_maker, [path], tmp_path / "whole", backend=in_process_backend(), rows=10
        )
        with pytest.raises(KeyboardInterrupt):
            score_shards(
                rubric_maker, [path], tmp_path / "run", backend=in_process_backend(2), rows=5
            )
        summary = score_shards(
            rubric_maker,
            [path],
            tmp_path / "run",
            backend=in_process_backend(),
            rows=7,
            resume=True,
        )
        assert summary.rollouts == 40
        assert rows_of_run(tmp_path / "run") == rows_of_run(tmp_path / "whole")

    def test_finished_shards_are_not_started_again(self, write_rows, tmp_path, in_process_backend):
        make, path = given(Rubric([len_of])), write_rows(9)
        whole = score_shards(make, [path], tmp_path / "run", backend=in_process_backend(), rows=3)
        backend = in_process_backend()
        resumed = score_shards(make, [path], tmp_path / "run", backend=backend, rows=3, resume=True)
        assert (resumed, backend.started_shards) == (whole, [])

    async def test_a_finished_run_can_be_resumed_in_one_process(
        self, rubric_maker, write_rows, tmp_path, in_process_backend, rows_of_run
    ):
        """And the run of one process can be resumed in shards."""
        path, folder = write_rows(20), tmp_path / "run"
        score_shards(rubric_maker, [path], folder, backend=in_process_backend(), rows=10)
        before = rows_of_run(folder)
        about = Run.open(folder).about
        summary = await score_rows(
            rubric_maker()[0], rows_of(path), folder=folder, about=about, resume=True
        )
        assert summary.rollouts == 20
        assert rows_of_run(folder) == before
        resumed = score_shards(
            rubric_maker, [path], folder, backend=in_process_backend(), rows=10, resume=True
        )
        assert resumed.rollouts == 20
        assert rows_of_run(folder) == before

    def test_a_run_can_be_resumed_after_the_data_file_was_moved(
        self, rubric_maker, write_rows, tmp_path, in_process_backend
    ):
        """The data is known by its content."""
        path = write_rows(20)
        with pytest.raises(KeyboardInterrupt):
            score_shards(
                rubric_maker, [path], tmp_path / "run", backend=in_process_backend(1), rows=5
            )
        moved = path.rename(tmp_path / "moved.jsonl")
        summary = score_shards(
            rubric_maker,
            [moved],
            tmp_path / "run",
            backend=in_process_backend(),
            rows=5,
            resume=True,
        )
        assert summary.rollouts == 20

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"make": given(Rubric([lambda completion: 1]))}, "the rubric has changed"),
            ({"mapping": {"completion": "prompt"}}, "map was {}, and is {'completion': 'prompt'}"),
            ({"resume": False}, "holds a run already"),
        ],
    )
    def test_a_run_cannot_be_resumed_with_other_settings(
        self, rubric_maker, write_rows, tmp_path, in_process_backend, change, why
    ):
        path = write_rows(20)
        with pytest.raises(KeyboardInterrupt):
            score_shards(
                rubric_maker, [path], tmp_path / "run", backend=in_process_backend(0), rows=5
            )
        options = {
            "make": rubric_maker,
            "rows": 5,
            "resume": True,
            "backend": in_process_backend(),
            **change,
        }
        with pytest.raises(RunError, match=why):
            score_shards(paths=[path], folder=tmp_path / "run", **options)


class TestFailures:
    def test_rows_that_a_killed_worker_finished_are_kept(
        self, write_rows, tmp_path, in_process_backend, rows_of_run
    ):
        """Killed at row 15, in the second shard: rows 10 to 12 are not scored again."""

        class Check(CountingCheck):
            def __call__(self, completion):
                self.count(completion)
                if completion == "it is 15" and self.calls[completion] == 1:
                    raise KeyboardInterrupt
                return len(completion)

        path, check = write_rows(30), Check()
        calls = check.calls
        make = given(Rubric([Criterion(check=check, name="check")]))
        with pytest.raises(KeyboardInterrupt):
            score_shards(
                make, [path], tmp_path / "run", backend=in_process_backend(make=make), rows=10
            )
        calls_before_resuming = calls.copy()
        backend = in_process_backend(make=make)
        score_shards(make, [path], tmp_path / "run", backend=backend, rows=10, resume=True)
        assert len(rows_of_run(tmp_path / "run")) == 30
        saved = [n for n in range(30) if calls[f"it is {n}"] == calls_before_resuming[f"it is {n}"]]
        # Rows are written in chunks of 1, 2, 4, …: 10, then 11 and 12; 13 to 16 were in progress.
        assert saved[:13] == list(range(13))

    def test_a_finished_shard_is_not_scored_again_after_the_driver_was_killed(
        self, write_rows, tmp_path, in_process_backend
    ):
        """It is merged when the run is resumed."""
        path, check = write_rows(20), CountingCheck()
        make = given(Rubric([Criterion(check=check, name="check")]))

        class Killed(in_process_backend):
            def result(self, job, task):
                super().result(job, task)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            score_shards(make, [path], tmp_path / "run", backend=Killed(make=make), rows=10)
        backend = in_process_backend(make=make)
        summary = score_shards(
            make, [path], tmp_path / "run", backend=backend, rows=10, resume=True
        )
        assert (summary.rollouts, check.calls.total()) == (20, 20)

    def test_a_damaged_shard_is_scored_again(
        self, rubric_maker, write_rows, tmp_path, in_process_backend
    ):
        """A killed worker or a bad disk may leave any file."""
        path, folder = write_rows(20), tmp_path / "run"
        with pytest.raises(KeyboardInterrupt):
            score_shards(rubric_maker, [path], folder, backend=in_process_backend(2), rows=5)
        part = folder / "parts" / "000000010-000000015-0123abcd"
        part.mkdir()
        (part / "run.assay").write_bytes(b"no run" * 1000)
        summary = score_shards(
            rubric_maker, [path], folder, backend=in_process_backend(), rows=5, resume=True
        )
        assert summary.rollouts == 20
        assert not (folder / "parts").exists()

    def test_data_that_is_truncated_during_the_run_is_an_error(
        self, rubric_maker, write_rows, tmp_path, in_process_backend
    ):
        path = write_rows(20)

        class Truncating(in_process_backend):
            def result(self, job, task):
                os.truncate(path, 5)
                return super().result(job, task)

        with pytest.raises(RunError, match="4 of 4 shards could not be scored"):
            score_shards(rubric_maker, [path], tmp_path / "run", backend=Truncating(), rows=5)

    def test_an_invalid_line_stops_only_its_shard(self, rubric_maker, tmp_path, in_process_backend):
        path = tmp_path / "rows.jsonl"
        good = json.dumps({"completion": "it is 1", "answer": 1})
        path.write_text("\n".join([good] * 10 + ["{"] + [good] * 9) + "\n")
        with pytest.raises(
            RunError, match=r"1 of 2 shards .* shard 1: .*rows\.jsonl:11: not valid JSON"
        ):
            score_shards(
                rubric_maker, [path], tmp_path / "run", backend=in_process_backend(), rows=10
            )

    def test_a_rubric_that_cannot_be_pickled_is_refused(self, write_rows, tmp_path):
        file = (tmp_path / "open").open("w")

        def writes(completion):
            return file.write(completion)

        with file, pytest.raises(ValueError, match=r"cannot be sent .* in a function of a module"):
            score_shards(given(Rubric([writes])), [write_rows(1)], tmp_path / "run")


def test_a_dry_run_with_workers_is_refused(rubric_maker, write_rows, tmp_path, in_process_backend):
    """Workers would make real calls."""
    with dry_run(), pytest.raises(RunError, match="a dry run has no workers"):
        score_shards(rubric_maker, [write_rows(3)], tmp_path / "run", backend=in_process_backend())


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
