"""The SQLite file of a run: saved rows survive kills and damage, and errors say what to do."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from assay.runs.recovery import recover_run
from assay.runs.run_errors import RunError, RunRefused
from assay.runs.run_file import RunFile
from assay.runs.run_schema import FILE_NAME, SavedCall, SavedRollout, SavedVerdict, is_run
from assay.runs.run_writer import RunWriter

ABOUT = {"kind": "score", "created": "2026-01-31T09:30:00Z", "rubric": None, "data": {}}


@pytest.fixture(params=["wal", "delete"], autouse=True)
def journal_mode(request, monkeypatch):
    """Run every test in both modes in which SQLite protects a transaction."""
    monkeypatch.setenv("ASSAY_JOURNAL_MODE", request.param)
    return request.param


def rollout(example, sample=0, *, row=None, error=None, verdicts=(), calls=(), text="Paris"):
    return SavedRollout(
        example=example,
        sample=sample,
        row=row,
        task="default",
        score=None if error else 1.0,
        reward=None if error else 1.0,
        error=error,
        model=None,
        input_tokens=0,
        output_tokens=0,
        cost=0.0,
        seconds=None,
        data=f'{{"example":"{example}","fields":{{"prompt":"Q","completion":"{text}"}}}}',
        verdicts=verdicts,
        calls=calls,
    )


def write(folder, *rollouts):
    with RunWriter(folder) as writer:
        writer.save_about(ABOUT)
        writer.save_rollouts(rollouts)


def examples(folder):
    return [example for (example,) in RunFile(folder).select("SELECT example FROM rollouts")]


def test_a_finished_run_is_a_single_file(tmp_path, journal_mode):
    with RunWriter(tmp_path / "run") as writer:
        writer.save_about(ABOUT)
        writer.save_rollouts([rollout("a")])
        assert writer.journal_mode == journal_mode
    assert [path.name for path in (tmp_path / "run").iterdir()] == [FILE_NAME]
    assert is_run(tmp_path / "run")
    assert is_run(tmp_path / "run" / FILE_NAME)
    assert RunFile(tmp_path / "run" / FILE_NAME).read_run()["kind"] == "score"


def test_prompt_and_completion_are_columns(tmp_path):
    write(tmp_path, rollout("a"))
    assert RunFile(tmp_path).select("SELECT prompt, completion FROM rollouts") == [("Q", "Paris")]


def test_rollouts_are_read_in_the_order_of_the_data(tmp_path):
    """Also over several batches."""
    numbers = list(range(1200))
    write(tmp_path, *[rollout(str(number), row=number) for number in reversed(numbers)])
    ids = [saved.id for saved in RunFile(tmp_path).read_rollouts()]
    assert ids == list(range(1200, 0, -1))


def test_a_rollout_without_a_row_number_comes_last(tmp_path):
    write(tmp_path, rollout("b", row=4), rollout("c"), rollout("a", row=0))
    data = [saved.data for saved in RunFile(tmp_path).read_rollouts()]
    assert [line[12:13] for line in data] == [b"a", b"b", b"c"]


def test_a_reader_sees_the_rows_saved_so_far(tmp_path):
    with RunWriter(tmp_path) as writer:
        writer.save_about(ABOUT)
        run = RunFile(tmp_path)
        assert run.is_being_written
        assert list(run.read_rollouts()) == []
        writer.save_rollouts([rollout("a")])
        assert len(list(run.read_rollouts())) == 1
    assert not run.is_being_written


def test_a_failed_rollout_is_replaced_together_with_its_verdicts(tmp_path):
    verdict = SavedVerdict(0, "is_kind", 1.0, "MET", "Because.", None, "judge-1")
    with RunWriter(tmp_path) as writer:
        writer.save_about(ABOUT)
        writer.save_rollouts(
            [rollout("a", error="Overloaded", verdicts=[verdict, verdict._replace(position=1)])]
        )
        assert not writer.is_finished("a", 0)
        writer.save_rollouts([rollout("a", verdicts=[verdict])])
        assert writer.is_finished("a", 0)
        # A failed rollout does not replace a successful one.
        writer.save_rollouts([rollout("a", error="Overloaded")])
        assert writer.is_finished("a", 0)
    run = RunFile(tmp_path)
    assert run.select("SELECT * FROM verdicts") == [(1, *verdict)]
    assert run.select("SELECT count(*) FROM rollouts") == [(1,)]


def test_calls_are_saved_with_their_rollout(tmp_path):
    call = SavedCall(0, "judge", "judge-1", "[]", "MET", 10, 2, 0.01, '{"reply": "MET"}')
    write(tmp_path, rollout("a", calls=[call]))
    assert [saved.calls for saved in RunFile(tmp_path).read_rollouts()] == [[{"reply": "MET"}]]


def test_a_generation_is_kept_until_its_rollout_is_finished(tmp_path):
    with RunWriter(tmp_path) as writer:
        writer.save_about(ABOUT)
        writer.save_generation("a", 0, '{"completion": "Paris"}')
    with RunWriter(tmp_path) as writer:
        assert writer.read_generation("a", 0) == '{"completion": "Paris"}'
        writer.save_rollouts([rollout("a")])
        assert writer.read_generation("a", 0) is None


def test_the_summary_is_dropped_when_a_rollout_is_added(tmp_path):
    write(tmp_path, rollout("a"))
    with RunWriter(tmp_path) as writer:
        writer.save_summary({"rollouts": 1}, complete=True)
        assert RunFile(tmp_path).select("SELECT summary, complete FROM run") == [
            ('{"rollouts": 1}', 1)
        ]
        writer.save_rollouts([rollout("b")])
        assert RunFile(tmp_path).select("SELECT summary, complete FROM run") == [(None, 0)]


def test_the_spending_of_each_session_is_a_row(tmp_path):
    for dollars in (0.5, 0.25):
        with RunWriter(tmp_path) as writer:
            session = writer.start_session("2026-01-31T09:30:00Z")
            writer.save_spending(session, {"calls": 1, "cost": dollars})
    assert RunFile(tmp_path).select("SELECT session, calls, cost FROM spending") == [
        (1, 1, 0.5),
        (2, 1, 0.25),
    ]


KILLED = """
import sys, time
sys.path.insert(0, {tests!r})
from test_run_store import ABOUT, RunWriter, rollout
writer = RunWriter({folder!r})
writer.save_about(ABOUT)
for number in range(100_000):
    writer.save_rollouts([rollout(str(number))])
    print(number, flush=True)
"""


def test_a_kill_loses_no_saved_rollout(tmp_path):
    """The file can be read and written immediately afterwards."""
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "run"))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        for _ in range(50):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        printed = child.stdout.read().splitlines()
    last = int(printed[-1]) if printed and printed[-1] else 49
    saved = {int(example) for example in examples(tmp_path / "run")}
    assert saved >= set(range(last))
    assert len(list(RunFile(tmp_path / "run").read_rollouts())) == len(saved)
    with RunWriter(tmp_path / "run") as writer:
        writer.save_rollouts([rollout("more")])
    assert RunFile(tmp_path / "run").select("PRAGMA integrity_check") == [("ok",)]


def test_a_reader_rolls_back_a_transaction_that_a_kill_interrupted(tmp_path):
    """With a rollback journal, the file contains half of it until a process opens the run."""
    with RunWriter(tmp_path / "run", journal_mode="delete") as writer:
        writer.save_about(ABOUT)
        writer.save_rollouts([rollout(str(number)) for number in range(100)])
        connection = writer._connection
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE rollouts SET task = 'half'")
        shutil.copytree(tmp_path / "run", tmp_path / "killed")
        connection.execute("ROLLBACK")
    assert b"half" in (tmp_path / "killed" / FILE_NAME).read_bytes()
    tasks = RunFile(tmp_path / "killed").select("SELECT DISTINCT task FROM rollouts")
    assert tasks == [(rollout("0").task,)]


SECOND = """
from assay.runs.run_errors import RunError
from assay.runs.run_writer import RunWriter
try:
    RunWriter({folder!r})
except RunError as error:
    print(error)
"""


def test_a_second_writer_is_refused_with_the_process_id_of_the_first(tmp_path):
    with RunWriter(tmp_path):
        code = SECOND.format(folder=str(tmp_path))
        completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert f"is being written by process {os.getpid()}: wait until it ends" in completed.stdout
        with pytest.raises(RunError, match="is being written by process"):
            RunWriter(tmp_path)
    RunWriter(tmp_path).close()


FORKING = """
import os, signal, sys
from assay.runs.run_writer import RunWriter
writer = RunWriter({folder!r})
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
else:
    signal.pause()
"""


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    """A worker that outlives a killed process does not lock out the next writer."""
    code = FORKING.format(folder=str(tmp_path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout.readline() == b"forked\n"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        RunWriter(tmp_path).close()


FULL = """
import sys, resource, signal
sys.path.insert(0, {tests!r})
from test_run_store import ABOUT, RunWriter, rollout, RunError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = RunWriter({folder!r})
writer.save_about(ABOUT)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    for number in range(100_000):
        writer.save_rollouts([rollout(str(number), text="x" * 700)])
except RunError as error:
    print(number, error)
"""


def test_a_full_disk_stops_with_a_message_and_the_run_can_be_resumed(tmp_path):
    code = FULL.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    count = int(completed.stdout.split()[0])
    assert count > 5
    assert "cannot be written" in completed.stdout
    assert f"{count} rollouts are saved: free some space" in completed.stdout
    with RunWriter(tmp_path) as writer:
        assert writer.count_rollouts() == count
        writer.save_rollouts([rollout("more")])


def test_a_merged_run_holds_the_rollouts_of_both(tmp_path):
    """If both have a rollout, the one without an error is kept."""
    verdict = SavedVerdict(0, "is_kind", 1.0, "MET", None, None, None)
    write(
        tmp_path / "one",
        rollout("a", row=0, verdicts=[verdict]),
        rollout("b", row=1, error="Overloaded", verdicts=[verdict]),
    )
    write(
        tmp_path / "two",
        rollout("a", row=0, error="Overloaded"),
        rollout("b", row=1, verdicts=[verdict._replace(verdict="UNMET")]),
        rollout("c", row=2),
    )
    with RunWriter(tmp_path / "one") as writer:
        writer.merge_from(tmp_path / "two")
        writer.save_rollouts([rollout("d")])
    run = RunFile(tmp_path / "one")
    assert run.select("SELECT example, error FROM rollouts ORDER BY row") == [
        ("a", None),
        ("b", None),
        ("c", None),
        ("d", None),
    ]
    query = "SELECT example, verdict FROM verdicts JOIN rollouts ON id = rollout ORDER BY row"
    assert run.select(query) == [("a", "MET"), ("b", "UNMET")]


def count_steps_of_merging(tmp_path, monkeypatch, *, saved_rollouts):
    """Return how many instructions SQLite takes to merge 10 rollouts into a run of so many."""
    folder = tmp_path / f"run-{saved_rollouts}"
    write(folder, *(rollout(f"saved-{number}") for number in range(saved_rollouts)))
    write(folder / "part", *(rollout(f"new-{number}") for number in range(10)))
    steps = 0

    def count_step():
        nonlocal steps
        steps += 1

    def connect(*args, **options):
        connection = connect_to_sqlite(*args, **options)
        connection.set_progress_handler(count_step, 1)
        return connection

    connect_to_sqlite = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        with RunWriter(folder) as writer:
            steps = 0
            writer.merge_from(folder / "part")
            return steps


def test_merging_takes_no_longer_in_a_larger_run(tmp_path, monkeypatch):
    """Shards are merged one by one, so merging must not read all saved rollouts."""
    small = count_steps_of_merging(tmp_path, monkeypatch, saved_rollouts=100)
    large = count_steps_of_merging(tmp_path, monkeypatch, saved_rollouts=2_000)
    assert large < 1.5 * small


class TestDamage:
    def damage(self, folder, offset, garbage):
        with (folder / FILE_NAME).open("r+b") as file:
            file.seek(offset)
            file.write(garbage)

    def test_a_changed_character_is_detected(self, tmp_path):
        """SQLite itself has no checksums."""
        write(tmp_path, rollout("a"), rollout("b", text="Rome"))
        offset = (tmp_path / FILE_NAME).read_bytes().index(b"Rome")
        self.damage(tmp_path, offset, b"Nome")
        with pytest.raises(RunError, match=r"checksum of rollout 2 .* --recover FOLDER"):
            list(RunFile(tmp_path).read_rollouts())

    def test_readable_rollouts_of_a_damaged_run_are_recovered(self, tmp_path):
        verdict = SavedVerdict(0, "is_kind", 1.0, "MET", "Because.", None, "judge-1")
        write(
            tmp_path / "run",
            *[rollout(str(n), text="x" * 500, verdicts=[verdict]) for n in range(100)],
        )
        offset = (tmp_path / "run" / FILE_NAME).read_bytes().index(b'"example":"40"')
        # Most of a page is overwritten, with several rollouts in it.
        self.damage(tmp_path / "run", offset // 4096 * 4096, b"\xff" * 3000)
        with pytest.raises(RunError, match="is damaged"):
            list(RunFile(tmp_path / "run").read_rollouts())
        with RunWriter(tmp_path / "new") as writer:
            saved, lost = recover_run(RunFile(tmp_path / "run"), writer)
        assert saved + lost == 100
        assert 1 <= lost <= 8
        run = RunFile(tmp_path / "new")
        assert len(list(run.read_rollouts())) == saved
        assert run.select("SELECT count(*) FROM verdicts") == [(saved,)]
        assert run.read_run() == ABOUT

    def test_a_file_that_is_not_sqlite_is_reported_as_damaged(self, tmp_path):
        (tmp_path / FILE_NAME).write_bytes(b"not SQLite" * 100)
        with pytest.raises(RunError, match=r"is damaged .file is not a database"):
            RunFile(tmp_path).read_run()
        with pytest.raises(RunError, match="is damaged"):
            RunWriter(tmp_path)
        # The lock was released.
        assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_run_on_read_only_media_can_be_read(tmp_path):
    write(tmp_path / "run", rollout("a"))
    (tmp_path / "run").chmod(0o500)
    try:
        assert examples(tmp_path / "run") == ["a"]
    finally:
        (tmp_path / "run").chmod(0o700)


class TestOtherFiles:
    def test_a_run_of_an_earlier_version_is_refused(self, tmp_path):
        (tmp_path / "run.json").write_text("{}")
        (tmp_path / "rollouts.jsonl").write_text("")
        for open_run in (RunFile, RunWriter):
            with pytest.raises(RunError, match="was written by an earlier version of assay"):
                open_run(tmp_path)

    def test_a_database_of_another_program_is_refused(self, tmp_path):
        with sqlite3.connect(tmp_path / FILE_NAME) as connection:
            connection.execute("CREATE TABLE notes (text)")
        connection.close()
        for open_run in (RunWriter, lambda folder: RunFile(folder).read_run()):
            with pytest.raises(RunRefused, match="is an SQLite file, but not a run"):
                open_run(tmp_path)

    def test_a_later_format_is_refused(self, tmp_path):
        write(tmp_path)
        with sqlite3.connect(tmp_path / FILE_NAME) as connection:
            connection.execute("PRAGMA user_version = 2")
        connection.close()
        with pytest.raises(RunRefused, match="has version 2 of the format"):
            RunFile(tmp_path).read_run()

    def test_a_folder_without_a_run_is_refused(self, tmp_path):
        with pytest.raises(RunError, match=r"there is no run .*nowhere: name the folder"):
            RunFile(tmp_path / "nowhere")
        with pytest.raises(RunError, match=r"has no run\.assay, so it is not a run"):
            RunFile(tmp_path)

    def test_a_file_where_the_folder_should_be_is_refused(self, tmp_path):
        (tmp_path / "run").write_text("")
        for folder in (tmp_path / "run", tmp_path / "run" / "inner"):
            with pytest.raises(RunRefused, match="/run is a file, and a run needs a folder"):
                RunWriter(folder)


def test_a_run_without_metadata_is_refused(tmp_path):
    RunWriter(tmp_path).close()
    with pytest.raises(RunError, match="holds no run yet"):
        RunFile(tmp_path).read_run()


def test_a_copied_run_file_is_a_run(tmp_path):
    write(tmp_path / "run", rollout("a"))
    shutil.copy(tmp_path / "run" / FILE_NAME, tmp_path / "copy.assay")
    assert examples(tmp_path / "copy.assay") == ["a"]
