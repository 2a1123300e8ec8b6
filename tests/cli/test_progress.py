"""Progress on standard error, and Ctrl-C pressed once and twice."""

import asyncio
import io
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.cli.runner import Interrupt, run_interruptibly, show_progress
from assay.models import budget
from assay.models.budgets import open_call
from assay.runs import Progress, pipeline
from assay.testing import Fault

HALF = Progress(done=50, total=100, errors=2, hits=30, calls=20, tokens=1234, cost=0.5, seconds=65)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    def test_without_a_terminal_a_line_is_printed_from_time_to_time(self, capsys: Any) -> None:
        """With counts, costs and the remaining time; none at the start."""
        with show_progress("rollouts", quiet=False) as tell:
            assert tell is not None
            for seconds in (1, 20, 21, 40):
                tell(Progress(**{**_data(HALF), "seconds": seconds}))
        line = "50 of 100 rollouts, 2 errors, 30 from the cache, 20 calls, 1,234 tokens, $0.5000, about"
        assert capsys.readouterr().err == f"{line} 0:00:20 left\n{line} 0:00:40 left\n"

    def test_running_calls_are_listed_if_nothing_finishes(self, capsys: Any) -> None:
        """After ten seconds without a result; the remaining time is unknown then."""
        with show_progress("rollouts", quiet=False) as tell:
            assert tell is not None
            for seconds, idle in ((20, 0), (29, 9), (30, 10), (31, 11), (45, 25)):
                waiting = {"gpt-5-mini": (1, idle + 53), "small": (2, 5)}
                tell(Progress(9, 10, seconds=seconds, idle_seconds=idle, open_calls=waiting))
        assert capsys.readouterr().err.splitlines()[1:] == [
            "9 of 10 rollouts, waiting for 1 call to gpt-5-mini, 63 s and 2 calls to small, 5 s",
            "9 of 10 rollouts, waiting for 1 call to gpt-5-mini, 78 s and 2 calls to small, 5 s",
        ]

    async def test_hanging_calls_are_listed_until_they_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Progress is reported although no row finishes."""
        monkeypatch.setattr(pipeline, "TICK_SECONDS", 0.01)
        monkeypatch.setattr(pipeline, "EVERY_SECONDS", 0.0)
        is_seen = asyncio.Event()

        def look(progress: Progress) -> None:
            if progress.describe_waiting().startswith("waiting for 1 call to small, "):
                is_seen.set()

        with budget() as ledger:
            watch = pipeline.Watch(look, 1, ledger, every=0)
            with watch.ticking():
                with open_call("small"):
                    await is_seen.wait()
                assert watch.now().describe_waiting() == ""

    def test_unknown_totals_and_times_are_not_printed(self, capsys: Any) -> None:
        with show_progress("rollouts", quiet=False) as tell:
            assert tell is not None
            tell(Progress(done=1500, seconds=20))
        assert capsys.readouterr().err == "1,500 rollouts\n"

    def test_quiet_prints_nothing(self) -> None:
        with show_progress("rollouts", quiet=True) as tell:
            assert tell is None

    def test_a_terminal_shows_a_bar_that_is_removed_at_the_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without colours if they are switched off."""
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "200")
        with show_progress("rollouts", quiet=False) as tell:
            assert tell is not None
            tell(HALF)
        said = terminal.getvalue()
        assert "50 of 100 rollouts, 2 errors" in said
        assert "\x1b[3" not in said


def _data(progress: Progress) -> dict[str, Any]:
    return {name: getattr(progress, name) for name in progress.__dataclass_fields__}


class TestStopping:
    def test_the_first_ctrl_c_is_recorded_and_the_second_cancels(self, capsys: Any) -> None:
        """Cleanup still runs; the previous signal handler is restored afterwards."""
        before = signal.getsignal(signal.SIGINT)
        ended: list[str] = []

        async def work(_: object, interrupt: Interrupt) -> None:
            try:
                assert not interrupt.is_requested()
                signal.raise_signal(signal.SIGINT)
                assert interrupt.is_requested()
                signal.raise_signal(signal.SIGINT)
                await asyncio.Event().wait()
            finally:
                ended.append("put away")

        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(work, None)
        assert ended == ["put away"]
        assert signal.getsignal(signal.SIGINT) is before
        assert capsys.readouterr().err == (
            "finishing what has started; press Ctrl-C again to stop at once\n"
        )

    def test_ctrl_c_prints_what_is_running_and_what_is_saved(self, capsys: Any) -> None:
        async def work(on_progress: Any, interrupt: Interrupt) -> None:
            on_progress(Progress(59, 60, open_calls={"gpt-5-mini": (1, 63.0)}))
            signal.raise_signal(signal.SIGINT)

        run_interruptibly(work, None, saved_in="run")
        assert capsys.readouterr().err == (
            "finishing what has started (waiting for 1 call to gpt-5-mini, 63 s); 59 of 60 "
            "rollouts are saved in run; press Ctrl-C again to stop at once\n"
        )

    def test_a_hanging_call_is_retried_after_the_timeout(
        self, serve: Any, write_file: Any, cache_folder: Path, capsys: Any
    ) -> None:
        server = serve("MET", faults=[Fault.hanging()])
        rows = write_file("rows.jsonl", [{"completion": "Paris."}])
        rubric = write_file("rubric.json", [{"requirement": "Names Paris"}])
        arguments = ["score", rows, "-r", rubric, "--judge", server.model]
        assert main([*arguments, "--timeout", "0.2"]) == 0
        assert len(server.requests) == 2
        assert main([*arguments, "--timeout", "0"]) == 2
        assert "'0' is not a number of seconds above 0" in capsys.readouterr().err

    @pytest.mark.slow
    @pytest.mark.parametrize("stuck", ["time.sleep(600)", "while True: pass"])
    def test_code_that_ignores_cancellation_is_interrupted(
        self, stuck: str, tmp_path: Path
    ) -> None:
        """A check that sleeps or computes forever; two Ctrl-C are enough."""
        (tmp_path / "ours.py").write_text(
            f"import time\ndef check():\n    print('begun', flush=True)\n    {stuck}\nchecks = [check]\n"
        )
        (tmp_path / "rows.jsonl").write_text("{}\n")
        command = [sys.executable, "-m", "assay", "score", "rows.jsonl", "-r", "ours:checks"]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*command, "-o", "run"], cwd=tmp_path, stdout=pipe, stderr=pipe, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            assert process.stderr.readline().startswith("finishing what has started")
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            assert rest.startswith("stopped at once; nothing is saved yet; continue with: ")
        assert process.returncode == 130

    def test_another_thread_installs_no_signal_handler(self) -> None:
        """Only the main thread may."""
        before = signal.getsignal(signal.SIGINT)
        requested: list[bool] = []

        async def work(_: object, interrupt: Interrupt) -> None:
            requested.append(interrupt.is_requested())

        thread = threading.Thread(target=lambda: run_interruptibly(work, None))
        thread.start()
        thread.join()
        assert requested == [False]
        assert signal.getsignal(signal.SIGINT) is before
