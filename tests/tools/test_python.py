"""python: what code prints, or that it failed and why; within limits, and leaving nothing behind."""

import asyncio
import inspect
import pickle
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assay.tools import Interpreter, is_failure, python, python_async
from assay.trajectory import read_calls


class TestWhatItSays:
    def test_what_is_printed_comes_back(self) -> None:
        """On either stream, in the order it was printed."""
        code = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('three')"
        assert python(code) == "one\ntwo\nthree"

    def test_text_is_text(self) -> None:
        """In any language; what is none is marked."""
        assert python("print('½ 日本 \\U0001f600')") == "½ 日本 \U0001f600"
        assert python("import os; os.write(1, b'a\\xffb')") == "a\ufffdb"

    @pytest.mark.parametrize("code", ["", "x = 1", "print()", "import sys; sys.exit(0)"])
    def test_silence_is_said(self, code: str) -> None:
        """A model that forgot to print learns of it."""
        assert python(code) == "(nothing was printed)"

    def test_an_exception_is_a_failure_with_its_trace(self) -> None:
        """Under a name that is the same every time."""
        reply = python("print('before')\n1 / 0")
        assert is_failure(reply)
        assert reply.startswith("Error: it ended with exit status 1\nbefore\n")
        assert '  File "main.py", line 2, in <module>' in reply
        assert reply.endswith("ZeroDivisionError: division by zero")
        assert python("print('before')\n1 / 0") == reply

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("x =", "SyntaxError"),
            ("import no_such_module", "ModuleNotFoundError"),
            ("import sys; sys.exit(3)", "exit status 3"),
            ("import sys; sys.exit('because')", "because"),
            ("input()", "EOFError"),
            ("print(open('nothing').read())", "FileNotFoundError"),
            ("x = '\ud800'", "exit status 1"),
            ("a\0b", "null bytes"),
            ("import os; os.abort()", "ended by SIGABRT"),
            ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
            ("import os, signal; os.kill(os.getpid(), 40)", "ended by signal 40"),
        ],
    )
    def test_whatever_goes_wrong_is_a_failure(self, code: str, words: str) -> None:
        """And says what."""
        reply = python(code)
        assert is_failure(reply)
        assert words in reply

    @pytest.mark.parametrize(
        "printed", ["Error: x", "error: x", "Traceback (most recent call last):", '{"error": 1}']
    )
    def test_what_a_program_prints_is_never_taken_for_a_failure_of_the_call(
        self, printed: str
    ) -> None:
        reply = python(f"print({printed!r})")
        assert reply == f"Output:\n{printed}"
        call = {"id": "a", "function": {"name": "python", "arguments": "{}"}}
        messages = [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": reply},
        ]
        [step] = read_calls("", messages)
        assert step.succeeded

    def test_of_much_the_beginning_and_the_end_are_shown(self) -> None:
        """101 bytes are printed and 20 shown: ten at each end."""
        reply = Interpreter(output=20).python("print('a' * 50 + 'b' * 50)")
        assert reply == f"{'a' * 10}\n… 81 bytes left out …\n{'b' * 9}"

    def test_the_trace_at_the_end_of_much_is_still_there(self) -> None:
        """It is what a model needs to go on."""
        reply = Interpreter(output=200).python("print('x' * 100_000)\n1 / 0")
        assert reply.endswith("ZeroDivisionError: division by zero")

    @pytest.mark.parametrize("given", [5, None, ["print(1)"]])
    def test_what_is_no_text_is_a_failure_and_no_crash(self, given: Any) -> None:
        """For either door."""
        assert "give it as text" in python(given)
        assert "give it as text" in asyncio.run(python_async(given))

    def test_what_is_too_long_is_never_run(self) -> None:
        """100,000 characters is the most."""
        assert "100,001 characters" in python("#" * 100_001)

    def test_a_failure_of_ours_is_no_reply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No interpreter, no folder: that is not the model's doing."""
        with monkeypatch.context() as broken:
            broken.setattr(sys, "executable", "")
            with pytest.raises(OSError, match=r"sys\.executable is empty"):
                python("print(1)")
        with monkeypatch.context() as broken:
            broken.setattr(sys, "executable", "/bin/false")
            with pytest.raises(OSError, match="could not be run: exit status 1"):
                python("print(1)")
        with monkeypatch.context() as broken:
            broken.setattr(tempfile, "tempdir", "/no/such/folder")
            with pytest.raises(FileNotFoundError):
                python("print(1)")


class TestWhatItHas:
    def test_nothing_of_our_environment_reaches_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keys least of all."""
        monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
        reply = python("import os; print(sorted(os.environ))")
        assert "OPENAI_API_KEY" not in reply
        assert "'HOME'" in reply

    def test_it_works_in_an_empty_folder_that_is_gone_afterwards(self) -> None:
        """One that it can write to."""
        code = (
            "import os, tempfile\n"
            "print(os.listdir())\n"
            "open('notes', 'w').write('kept')\n"
            "print(open('notes').read(), tempfile.gettempdir() == os.getcwd() == os.environ['HOME'])\n"
            "print('/'.join(os.getcwd()))"
        )
        listed, kept, folder = python(code).splitlines()
        assert (listed, kept) == ("['main.py']", "kept True")
        assert not Path(folder[::2]).exists()

    def test_two_runs_share_nothing(self) -> None:
        """No names, and no files."""
        python("x = 1; open('x', 'w').close()")
        assert python("import os; print('x' in globals(), os.listdir())") == "False ['main.py']"

    def test_it_has_the_packages_that_we_have(self) -> None:
        """And none of our paths besides: `-I`."""
        assert python("import yaml; print(yaml.__name__)") == "yaml"
        assert python("import sys; print(sys.flags.isolated)") == "1"

    def test_it_may_start_processes(self) -> None:
        """And see what they say."""
        code = "import subprocess\nprint(subprocess.check_output(['echo', 'hello'], text=True))"
        assert python(code) == "hello"


class TestTheTwin:
    async def test_it_does_not_hold_up_the_loop(self) -> None:
        """The loop goes on before the code has even begun."""
        task = asyncio.create_task(python_async("print(6 * 7)"))
        await asyncio.sleep(0)
        assert not task.done()
        assert await task == "42"

    async def test_many_at_once_all_come_back(self) -> None:
        """More than there are processors."""
        replies = await asyncio.gather(*(python_async(f"print({n})") for n in range(8)))
        assert replies == [str(n) for n in range(8)]

    async def test_when_its_caller_is_cancelled_the_code_is_stopped(self, marker: Any) -> None:
        """And all it started."""
        code = f"{marker.sleeper_code()}import time; time.sleep(600)"
        task = asyncio.create_task(python_async(code))
        assert await asyncio.to_thread(marker.wait_until, bool)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(marker.wait_until, lambda found: not found) == []

    async def test_what_is_cancelled_before_it_begins_never_does(self, marker: Any) -> None:
        """It waited for a place."""
        tasks = [asyncio.create_task(python_async(marker.sleeper_code())) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)
        assert await asyncio.to_thread(marker.wait_until, lambda found: not found) == []


class TestTheLimits:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("seconds", 0),
            ("wall_seconds", -1.0),
            ("wall_seconds", float("inf")),
            ("seconds", float("nan")),
            ("memory", "1 GB"),
            ("memory", 1.5e9),
            ("processes", True),
            ("output", None),
        ],
    )
    def test_a_limit_that_is_none_is_refused(self, field: str, value: Any) -> None:
        """At construction, by name."""
        with pytest.raises(ValueError, match=f"{field} is"):
            Interpreter(**{field: value})

    def test_a_tool_is_told_by_its_name_and_signature(self) -> None:
        """The model is offered the code, and no limits."""
        for tool in (python, Interpreter(seconds=60).python):
            assert tool.__name__ == "python"
            assert str(inspect.signature(tool)) == "(code: str) -> str"
            assert "Args:" in (tool.__doc__ or "")

    def test_it_can_be_pickled(self) -> None:
        """Its limits with it."""
        assert pickle.loads(pickle.dumps(Interpreter(seconds=2))) == Interpreter(seconds=2)
        assert pickle.loads(pickle.dumps(python))("print(1)") == "1"

    def test_a_forked_child_has_places_of_its_own(self) -> None:
        """The threads of its parent are not there."""
        code = (
            "import os\n"
            "from assay.tools import python\n"
            "assert python('print(1)') == '1'\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    os._exit(0 if python('print(2)') == '2' else 1)\n"
            "print(os.waitpid(child, 0)[1])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout == "0\n", done.stderr

    def test_threads_may_call_it_at_the_same_time(self) -> None:
        """Each gets its own."""
        with ThreadPoolExecutor(4) as threads:
            replies = list(threads.map(python, [f"print({n})" for n in range(8)]))
        assert replies == [str(n) for n in range(8)]

    def test_ctrl_c_stops_the_code(self, marker: Any) -> None:
        """And the caller learns of it as usual."""
        code = (
            "from assay.tools import python\n"
            "try:\n"
            f"    python({marker.sleeper_code() + 'import time; time.sleep(600)'!r})\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted')"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
        ) as caller:
            assert marker.wait_until(bool)
            caller.send_signal(signal.SIGINT)
            assert caller.communicate()[0] == "interrupted\n"
        assert marker.wait_until(lambda found: not found) == []


def test_nothing_is_left_in_the_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever became of the code."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for code in (
        "open('a', 'w').write('b')",
        "1 / 0",
        "import os; os.mkdir('d'); os.chmod('d', 0)",
    ):
        python(code)
    assert not list(tmp_path.iterdir())
