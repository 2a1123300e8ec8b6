"""Progress on standard error, and Ctrl-C once and twice."""

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
    def test_where_nobody_watches_a_line_comes_now_and_then(self, capsys: Any) -> None:
        """Done, errors, hits, calls, tokens, dollars, and how long it will be; none at the start."""
        with show_progress("rollouts", quiet=False) as tell:
            assert tell is not None
            for seconds in (1, 20, 21, 40):
                tell(Progress(**{**_data(HALF), "seconds": seconds}))
        line = "50 of 100 rollouts, 2 errors, 30 from the cache, 20 calls, 1,234 tokens, $0.5000, about"
        assert capsys.readouterr().err == f"{line} 0:00:20 left\n{line} 0:00:40 left\n"

    def test_what_is_waited_for_is_said_at_once_and_then_now_and_then(self, capsys: Any) -> None:
        """Once nothing has finished for ten seconds; the time that is left is not known then."""
        with show_progress("rollouts", quiet=False) as tell:
            assert tell is not None
            for seconds, idle in ((20, 0), (29, 9), (30, 10), (31, 11), (45, 25)):
                waiting = {"gpt-5-mini": (1, idle + 53), "small": (2, 5)}
                tell(Progress(9, 10, seconds=seconds, idle_seconds=idle, open_calls=waiting))
        assert capsys.readouterr().err.splitlines()[1:] == [
            "9 of 10 rollouts, waiting for 1 call to gpt-5-mini, 63 s and 2 calls to small, 5 s",
            "9 of 10 rollouts, waiting for 1 call to gpt-5-mini, 78 s and 2 calls to small, 5 s",
        ]

    async def test_calls_that_hang_are_seen_while_nothing_finishes(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Progress comes without a finished row, and lists the call until it is over."""
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

    def test_what_nobody_knows_is_not_said(self, capsys: Any) -> None:
        """Neither how many there are, nor how long it takes."""
        with show_progress("rollouts", quiet=False) as tell:
            assert tell is not None
            tell(Progress(done=1500, seconds=20))
        assert capsys.readouterr().err == "1,500 rollouts\n"

    def test_quiet_is_quiet(self) -> None:
        """Nobody is told."""
        with show_progress("rollouts", quiet=True) as tell:
            assert tell is None

    def test_a_terminal_sees_a_bar_that_is_gone_at_the_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without colours where they are not wanted."""
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
    def test_the_first_is_noted_and_the_second_cancels_what_is_awaited(self, capsys: Any) -> None:
        """So that it can put its things away; the handler from before hears Ctrl-C again afterwards."""
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

    def test_it_says_what_is_running_and_what_is_saved(self, capsys: Any) -> None:
        async def work(on_progress: Any, interrupt: Interrupt) -> None:
            on_progress(Progress(59, 60, open_calls={"gpt-5-mini": (1, 63.0)}))
            signal.raise_signal(signal.SIGINT)

        run_interruptibly(work, None, saved_in="run")
        assert capsys.readouterr().err == (
            "finishing what has started (waiting for 1 call to gpt-5-mini, 63 s); 59 of 60 "
            "rollouts are saved in run; press Ctrl-C again to stop at once\n"
        )

    def test_a_call_that_hangs_is_tried_again_after_the_timeout(
        self, serve: Any, files: Any, place: Path, capsys: Any
    ) -> None:
        server = serve("MET", faults=[Fault.hanging()])
        rows = files("rows.jsonl", [{"completion": "Paris."}])
        rubric = files("rubric.json", [{"requirement": "Names Paris"}])
        arguments = ["score", rows, "-r", rubric, "--judge", server.model]
        assert main([*arguments, "--timeout", "0.2"]) == 0
        assert len(server.requests) == 2
        assert main([*arguments, "--timeout", "0"]) == 2
        assert "'0' is not a number of seconds above 0" in capsys.readouterr().err

    @pytest.mark.slow
    @pytest.mark.parametrize("stuck", ["time.sleep(600)", "while True: pass"])
    def test_what_does_not_hear_that_it_is_cancelled_is_broken_off(
        self, stuck: str, tmp_path: Path
    ) -> None:
        """A check that sleeps or computes for ever; two Ctrl-C are enough."""
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

    def test_in_another_thread_nothing_is_heard(self) -> None:
        """Since only the main one may."""
        before = signal.getsignal(signal.SIGINT)
        requested: list[bool] = []

        async def work(_: object, interrupt: Interrupt) -> None:
            requested.append(interrupt.is_requested())

        thread = threading.Thread(target=lambda: run_interruptibly(work, None))
        thread.start()
        thread.join()
        assert requested == [False]
        assert signal.getsignal(signal.SIGINT) is before
