"""Rows that were written stay saved, and only one process writes a run."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from assay import Rubric
from assay.runs import Journal, Row, Run, RunAbout, RunError
from assay.runs.run_schema import FILE_NAME
from assay.runs.run_writer import RunWriter


def about(rubric=None, **known):
    return RunAbout.of("score", rubric=rubric, **known)


def write(folder, *rows, resume=False, about_run=None):
    with Journal.open(folder, about_run or about(), resume=resume) as journal:
        for row in rows:
            journal.write(row)
        journal.finish()


def test_rows_are_read_back_as_they_were_written(tmp_path):
    """In the order in which they were written."""
    rows = [
        Row("a", 0, {"completion": "Paris", "info": {"n": 1}}, timing={"generation": 0.5}),
        Row("a", 1, {"completion": ""}, error="Overloaded: try later", model="m-1"),
    ]
    write(tmp_path / "run", *rows)
    assert list(Run.open(tmp_path / "run").rows()) == rows


def test_an_existing_run_is_not_overwritten(tmp_path):
    """Unless it is resumed."""
    write(tmp_path, Row("0"))
    with pytest.raises(RunError, match="holds a run already: continue it by resuming"):
        Journal.open(tmp_path, about())


def test_a_run_without_rows_can_be_started_again(tmp_path):
    """Nothing is lost."""
    write(tmp_path)
    write(tmp_path, Row("0"))
    assert len(Run.open(tmp_path)) == 1


def test_resuming_a_missing_run_starts_it(tmp_path):
    """The same command can start and resume a run."""
    write(tmp_path / "new", Row("0"), resume=True)
    assert len(Run.open(tmp_path / "new")) == 1


def test_failed_rows_are_not_finished_and_can_be_replaced(tmp_path):
    """The last result counts."""
    write(tmp_path, Row("0"), Row("1", error="Overloaded: try later"), Row("2"))
    with Journal.open(tmp_path, about(), resume=True) as journal:
        assert [journal.is_finished((key, 0)) for key in "0123"] == [True, False, True, False]
        journal.write(Row("1", fields={"completion": "Paris"}))
    run = Run.open(tmp_path)
    assert [(row.example, row.error) for row in run.rows()] == [
        ("0", None),
        ("1", None),
        ("2", None),
    ]
    assert (len(run), run.row("1").fields) == (3, {"completion": "Paris"})


def test_a_row_that_is_written_twice_counts_once(tmp_path):
    """Also within one session."""
    with Journal.open(tmp_path, about()) as journal:
        journal.write(Row("a", error="Overloaded: try later"))
        assert not journal.is_finished(("a", 0))
        journal.write(Row("a"))
        assert journal.is_finished(("a", 0))
        summary = journal.finish()
    assert (summary.rollouts, summary.failed) == (1, 0)
    assert Run.open(tmp_path).summary() == summary


def test_a_run_can_be_read_while_it_is_written(tmp_path):
    """Readers see all finished rows."""
    with Journal.open(tmp_path, about()) as journal:
        run = Run.open(tmp_path)
        assert (len(run), list(run.rows())) == (0, [])
        journal.write(Row("0"))
        assert [row.example for row in run.rows()] == ["0"]
        journal.write(Row("1"))
        assert (len(run), run.summary().rollouts, run.row("1").key) == (2, 2, ("1", 0))
    with pytest.raises(KeyError, match="no row for example '7', sample 0"):
        run.row("7")


def execute_on_disk(folder, statement):
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        connection.execute(statement)
        connection.commit()


def test_a_summary_that_was_changed_on_disk_is_computed_again(tmp_path):
    """A changed digit would go unnoticed."""
    write(tmp_path, Row("a"), Row("b"))
    before = Run.open(tmp_path).summary()
    execute_on_disk(tmp_path, "UPDATE run SET summary = replace(summary, '2', '7')")
    assert Run.open(tmp_path).summary() == before


def test_a_missing_row_is_reported_as_damage(tmp_path):
    write(tmp_path, Row("a"), Row("b"))
    execute_on_disk(tmp_path, "DELETE FROM rollouts WHERE example = 'a'")
    with pytest.raises(RunError, match=r"it holds 1 of 2 rollouts.*--recover"):
        Run.open(tmp_path).summary()


def test_a_row_hidden_by_a_changed_byte_is_reported_as_damage(tmp_path):
    """A changed row number hides it from readers that read rows in order."""
    write(tmp_path, Row("a"), Row("b"))
    execute_on_disk(tmp_path, "UPDATE rollouts SET row = -9 WHERE example = 'a'")
    with pytest.raises(RunError, match=r"only 1 of its 2 rollouts can be found.*--recover"):
        list(Run.open(tmp_path).rows())


class TestResumingWithOtherSettings:
    def resume_and_get_error(self, folder, about_run):
        with pytest.raises(RunError, match="holds another run") as caught:
            Journal.open(folder, about_run, resume=True)
        return str(caught.value)

    def test_another_rubric_is_refused(self, tmp_path):
        """The error names the criteria that differ."""
        write(tmp_path, Row("0"), about_run=about(Rubric([{"requirement": "Is kind"}])))
        about_run = about(
            Rubric([{"requirement": "Is kind", "weight": 2}, {"requirement": "Is brief"}])
        )
        error = self.resume_and_get_error(tmp_path, about_run)
        assert "'is_brief' is new, 'is_kind' has another wording" in error

    def test_other_settings_that_decide_results_are_refused(self, tmp_path):
        """Settings such as concurrency may differ."""
        write(
            tmp_path, Row("0"), about_run=about(config={"temperature": 0.2}, options={"at_once": 4})
        )
        about_run = about(config={"temperature": 0.7}, options={"at_once": 8})
        assert "temperature was 0.2, and is 0.7" in self.resume_and_get_error(tmp_path, about_run)
        about_run = about(config={"temperature": 0.2}, options={"at_once": 8})
        Journal.open(tmp_path, about_run, resume=True).close()
        assert Run.open(tmp_path).about.options == {"at_once": 8}

    def test_other_data_is_refused(self, tmp_path):
        """Data is compared by fingerprint, whatever the file is called."""
        data = {"source": "a.jsonl", "fingerprint": "f1"}
        write(tmp_path, Row("0"), about_run=about(data=data))
        Journal.open(tmp_path, about(data={**data, "source": "b.jsonl"}), resume=True).close()
        about_run = about(data={"source": "a.jsonl", "fingerprint": "f2"})
        assert "the data have changed (the hash was f1, and is f2)" in self.resume_and_get_error(
            tmp_path, about_run
        )

    def test_another_judge_or_model_is_refused(self, tmp_path):
        """The error names both."""
        write(tmp_path, Row("0"), about_run=about(judge="a", model="m"))
        assert "model was m, and is n; judge was a, and is b" in self.resume_and_get_error(
            tmp_path, about(judge="b", model="n")
        )


SECOND = """
from assay.runs import Journal, RunAbout, RunError
try:
    Journal.open({folder!r}, RunAbout.of("score"), resume={resume})
except RunError as error:
    print(error)
"""


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_process_is_refused_with_the_id_of_the_first(tmp_path, resume):
    with Journal.open(tmp_path, about()) as journal:
        journal.write(Row("0"))
        code = SECOND.format(folder=str(tmp_path), resume=resume)
        completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"is being written by process {os.getpid()}: wait until it ends" in completed.stdout, (
        completed.stderr
    )


def test_a_second_journal_in_the_same_process_is_refused(tmp_path):
    """The folder is free again once the first journal is closed."""
    with Journal.open(tmp_path, about()), pytest.raises(RunError, match="is being written"):
        Journal.open(tmp_path, about())
    Journal.open(tmp_path, about()).close()


FORKING = """
import os, signal, sys
from assay.runs import Journal, RunAbout
journal = Journal.open({folder!r}, RunAbout.of("score"))
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
else:
    signal.pause()
"""


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    """Workers that outlive a killed process do not lock out the next one."""
    code = FORKING.format(folder=str(tmp_path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout.readline() == b"forked\n"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        Journal.open(tmp_path, about()).close()


FULL = """
import resource, signal
from assay.runs import Journal, Row, RunAbout, RunError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Journal.open({folder!r}, RunAbout.of("score")) as journal:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    try:
        for number in range(1000):
            journal.write(Row(str(number), fields={{"completion": "x" * 700}}))
    except RunError as error:
        print(error)
"""


def test_the_error_for_a_full_disk_says_how_many_rows_are_saved(tmp_path):
    """Every row written before can be read, and the run can be resumed."""
    code = FULL.format(folder=str(tmp_path))
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    run = Run.open(tmp_path)
    assert f"{len(run)} rollouts are saved: free some space" in completed.stdout
    assert len(run) > 5
    with Journal.open(tmp_path, about(), resume=True) as journal:
        assert all(journal.is_finished(row.key) for row in run.rows())
        journal.write(Row("more"))
    assert "more" in [row.example for row in run.rows()]


def test_a_path_that_is_not_a_run_is_refused(tmp_path):
    """For writing and for reading."""
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="is a file, and a run needs a folder"):
        Journal.open(tmp_path / "run", about())
    with pytest.raises(RunError, match="is not a run: name the folder of a run"):
        Run.open(tmp_path / "run")
    with pytest.raises(RunError, match=r"has no run\.assay, so it is not a run"):
        Run.open(tmp_path)


def test_unreadable_metadata_is_reported_as_damage(tmp_path):
    write(tmp_path, Row("0"))
    with RunWriter(tmp_path) as writer:
        writer.save_about({"kind": "score", "created": "", "resumed": "often"})
    with pytest.raises(RunError, match=r"run\.assay is damaged \(its metadata: .*resumed"):
        Run.open(tmp_path)
