"""Code that means harm, or might as well: it is bounded, it is said to have failed, and it leaves nobody behind."""

import http.server
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.tools import Interpreter, is_failure, python

pytestmark = pytest.mark.slow

Need = Callable[..., None]
WithFences = Callable[..., None]

ALONE = ("others", "processes", "memory", "network", "files")
TOGETHER = ("processes", "memory", "network", "files")
"""The fences where the system gives out no namespaces, as in most containers."""
NONE = ()


class TestTime:
    def test_an_endless_loop_ends_after_its_processor_time(self) -> None:
        """What it printed before is there."""
        reply = Interpreter(seconds=1).python("print('on and on')\nwhile True: pass")
        assert reply == "Error: it took more than 1 s of processor time, and was stopped\non and on"

    def test_sleep_ends_at_the_clock_on_the_wall(self) -> None:
        """It takes no processor time."""
        reply = Interpreter(wall_seconds=0.3).python("import time; time.sleep(600)")
        assert reply == "Error: it was not done after 0.3 s, and was stopped"

    def test_whoever_ignores_the_signal_is_killed(self) -> None:
        """A second later."""
        code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
        assert Interpreter(seconds=1).python(code) == "Error: it was ended by SIGKILL"

    def test_a_program_that_cannot_be_told_to_stop_is_killed(self) -> None:
        """Every signal that can be ignored is."""
        code = (
            "import signal, time\n"
            "for number in range(1, 65):\n"
            "    try: signal.signal(number, signal.SIG_IGN)\n"
            "    except (OSError, ValueError): pass\n"
            "time.sleep(600)"
        )
        assert "not done after" in Interpreter(wall_seconds=0.5).python(code)


class TestSize:
    def test_endless_output_ends_at_the_limit(self) -> None:
        """And only its ends are shown."""
        tool = Interpreter(file_size=2**20, output=20)
        reply = tool.python("while True: print('x' * 999)")
        assert reply.startswith("Error: it printed more than 1,048,576 bytes\nxxxxxxxxxx\n…")
        assert len(reply) < 200

    def test_output_goes_no_further_whatever_is_caught(self) -> None:
        """A program that goes on as if nothing had happened has failed all the same."""
        code = "import os\nfor _ in range(1000):\n  try: os.write(1, b'x' * 9999)\n  except OSError: pass"
        reply = Interpreter(file_size=2**16, output=20).python(code)
        assert reply.startswith("Error: it printed more than 65,536 bytes")

    def test_memory_ends_at_the_limit(self, require_fences: Need) -> None:
        """As an error in the code itself."""
        require_fences("memory")
        assert python("x = bytearray(2**31)").endswith("MemoryError")
        assert "MemoryError" in Interpreter(memory=2**28).python("x = bytearray(2**28)")

    def test_a_file_ends_at_the_limit(self) -> None:
        """One file; how many there are is a matter of time."""
        code = "file = open('large', 'wb')\nfile.write(b'x' * 2**20)\nfile.flush()"
        assert "File too large" in Interpreter(file_size=2**16).python(code)

    def test_threads_end_where_memory_does(self, require_fences: Need) -> None:
        """Each needs room for its stack."""
        require_fences("memory")
        code = "import threading, time\nfor _ in range(5000): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
        assert "can't start new thread" in Interpreter(memory=2**28).python(code)

    @pytest.mark.parametrize(
        "code",
        [
            "import os\nfor _ in range(1500):\n  os.mkdir('d')\n  os.chdir('d')",
            "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').close()\nos.chmod('a/b', 0)\nos.chmod('a', 0)",
            "import os\nos.symlink('/', 'root')\nos.symlink('nowhere', 'dangling')\nos.mkfifo('pipe')",
            "import os\nos.rename('main.py', 'x'); os.chmod('.', 0)",
        ],
        ids=["deep", "forbidden", "linked", "locked"],
    )
    def test_whatever_is_left_in_the_folder_is_removed(
        self, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And nothing else."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert python(code) == "(nothing was printed)"
        assert not list(tmp_path.iterdir())


class TestProcesses:
    @pytest.mark.parametrize("fences", [ALONE, TOGETHER], ids=["alone", "together"])
    @pytest.mark.parametrize(
        ("bomb", "words"),
        [
            ("while True: os.fork()", "Resource temporarily unavailable"),
            ("while True:\n  try: os.fork()\n  except OSError: pass", "not done after"),
            ("while True:\n  if os.fork(): os._exit(0)\n  os.setsid()", "nothing was printed"),
            ("while True: subprocess.Popen([sys.executable, 'main.py'])", "unavailable"),
        ],
        ids=["plain", "stubborn", "fleeing", "spawning"],
    )
    def test_a_fork_bomb_is_refused_its_forks(
        self,
        bomb: str,
        words: str,
        fences: tuple[str, ...],
        require_fences: Need,
        use_only_fences: WithFences,
        marker: Any,
    ) -> None:
        """No more than twice the limit are ever there, and none is when it is over."""
        require_fences(*fences)
        use_only_fences(*fences)
        most = 0
        over = threading.Event()

        def watch() -> None:
            nonlocal most
            while not over.is_set():
                most = max(most, len(marker.list_processes()))

        code = (
            "import os, subprocess, sys\n"
            f"if {marker.word!r} not in sys.argv:\n"
            f"  os.execv(sys.executable, [sys.executable, '-I', 'main.py', {marker.word!r}])\n"
        ) + bomb.replace("'main.py'", f"'main.py', {marker.word!r}")
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            reply = Interpreter(processes=8, wall_seconds=0.6).python(code)
        finally:
            over.set()
            watcher.join()
        assert marker.list_processes() == []
        assert most <= 16
        assert words in reply or "not done after" in reply

    @pytest.mark.parametrize("fences", [ALONE, TOGETHER, NONE], ids=["alone", "together", "none"])
    @pytest.mark.parametrize("daemon", [False, True], ids=["child", "daemon"])
    def test_no_child_outlives_the_code(
        self,
        daemon: bool,
        fences: tuple[str, ...],
        require_fences: Need,
        use_only_fences: WithFences,
        marker: Any,
    ) -> None:
        """Not even one in a session of its own, whose parent is gone."""
        require_fences(*fences)
        use_only_fences(*fences)
        assert python(marker.sleeper_code(daemon=daemon) + "print('done')") == "done"
        assert marker.list_processes() == []

    @pytest.mark.parametrize("fences", [ALONE, TOGETHER, NONE], ids=["alone", "together", "none"])
    def test_nor_one_of_code_that_was_stopped(
        self,
        fences: tuple[str, ...],
        require_fences: Need,
        use_only_fences: WithFences,
        marker: Any,
    ) -> None:
        """When its time is up."""
        require_fences(*fences)
        use_only_fences(*fences)
        code = marker.sleeper_code(daemon=True) + "import time; time.sleep(600)"
        assert "not done after" in Interpreter(wall_seconds=0.6).python(code)
        assert marker.list_processes() == []

    def test_zombies_are_buried(self, marker: Any) -> None:
        """Those the code leaves, and orphans in their turn."""
        code = "import os\nfor _ in range(10):\n  if not os.fork():\n    os.fork()\n    os._exit(0)\nprint('done')"
        assert python(code) == "done"
        own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        states = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2] for child in own]
        assert not [state for state in states if state.split()[0] == "Z"]

    def test_it_can_kill_neither_its_parent_nor_all(self, require_fences: Need) -> None:
        """It does not even see us."""
        require_fences("others")
        for target in ("os.getppid()", f"{os.getpid()}", "-1", "1"):
            reply = python(f"import os, signal\nos.kill({target}, signal.SIGKILL)")
            assert "PermissionError" in reply or "ProcessLookupError" in reply

    def test_without_namespaces_it_can_still_not_signal_us(
        self, require_fences: Need, use_only_fences: WithFences
    ) -> None:
        """A system that fences files lets signals no further either, from Linux 6.12 on."""
        require_fences("files")
        use_only_fences("files")
        victim = subprocess.Popen(["sleep", "600"])
        try:
            reply = python(f"import os, signal\nos.kill({victim.pid}, signal.SIGKILL)")
            if not is_failure(reply):
                pytest.skip("this Linux does not fence signals")
            assert "PermissionError" in reply
            assert victim.poll() is None
        finally:
            victim.kill()
            victim.wait()

    def test_code_that_kills_its_warden_has_failed(self, use_only_fences: WithFences) -> None:
        """Where nothing keeps it from that, it dies with it."""
        use_only_fences()
        code = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)"
        assert python(code) == "Error: it was ended by SIGKILL"

    def test_it_dies_with_us(self, marker: Any, tmp_path: Path) -> None:
        """Even when we are killed, and can say nothing any more. Its folder is gone too."""
        code = marker.sleeper_code(daemon=True) + "import time; time.sleep(600)"
        caller = subprocess.Popen(
            [sys.executable, "-c", f"from assay.tools import python; python({code!r})"],
            env={"TMPDIR": str(tmp_path)},
        )
        try:
            assert marker.wait_until(bool)
        finally:
            caller.kill()
            caller.wait()
        assert marker.wait_until(lambda found: not found and not list(tmp_path.iterdir())) == []
        assert not list(tmp_path.iterdir())


class TestTheOutside:
    @pytest.fixture
    def server(self) -> Any:
        """Somebody to talk to on this machine."""
        with http.server.HTTPServer(
            ("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler
        ) as server:
            yield server.server_address[1]

    @pytest.mark.parametrize("fences", [("others", "network"), ("network",)], ids=["both", "calls"])
    @pytest.mark.parametrize(
        "attempt",
        [
            "socket.create_connection(('127.0.0.1', PORT), 1)",
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
            "socket.socket(socket.AF_INET6)",
            "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        ],
        ids=["tcp", "udp", "v6", "raw", "netlink"],
    )
    def test_there_is_no_network(
        self,
        attempt: str,
        fences: tuple[str, ...],
        server: int,
        require_fences: Need,
        use_only_fences: WithFences,
    ) -> None:
        """Not even this machine's own; with namespaces or without."""
        require_fences(*fences)
        use_only_fences(*fences)
        reply = python(f"import socket\n{attempt.replace('PORT', str(server))}\nprint('reached')")
        assert "PermissionError" in reply
        assert "reached" not in reply

    def test_without_that_fence_there_is(self, server: int, use_only_fences: WithFences) -> None:
        """So it is the fence that keeps it in."""
        use_only_fences()
        code = (
            f"import socket\nsocket.create_connection(('127.0.0.1', {server}), 5)\nprint('reached')"
        )
        assert python(code) == "reached"

    def test_processes_may_talk_to_each_other(self) -> None:
        """Local sockets and pipes are no network."""
        code = "import socket\na, b = socket.socketpair()\na.send(b'hello')\nprint(b.recv(5))"
        assert python(code) == "b'hello'"

    @pytest.mark.parametrize(
        "change",
        [
            "open(TARGET + '/new', 'w')",
            "open(TARGET + '/kept', 'w')",
            "open(TARGET + '/kept', 'a')",
            "os.truncate(TARGET + '/kept', 0)",
            "os.remove(TARGET + '/kept')",
            "os.mkdir(TARGET + '/new')",
            "os.rename(TARGET + '/kept', 'mine')",
            "os.link(TARGET + '/kept', 'mine')",
            "os.symlink('/etc', TARGET + '/new')",
            "shutil.rmtree(TARGET)",
        ],
    )
    def test_no_file_outside_its_folder_is_changed(
        self, change: str, tmp_path: Path, require_fences: Need
    ) -> None:
        """In whatever way."""
        require_fences("files")
        (tmp_path / "kept").write_text("kept")
        code = f"import os, shutil\n{change.replace('TARGET', repr(str(tmp_path)))}"
        reply = python(code)
        assert "PermissionError" in reply or "Invalid cross-device link" in reply
        assert [path.name for path in tmp_path.iterdir()] == ["kept"]
        assert (tmp_path / "kept").read_text() == "kept"

    def test_what_goes_nowhere_may_be_written(self) -> None:
        """As programs do."""
        assert python("open('/dev/null', 'w').write('x'); print('done')") == "done"

    def test_our_secrets_are_not_to_be_read(self, require_fences: Need) -> None:
        """Neither in our environment nor in our memory."""
        require_fences("others")
        code = (
            "import glob\n"
            "for path in glob.glob('/proc/[0-9]*/environ'):\n"
            "  try:\n"
            "    if b'hunter' + b'2' in open(path, 'rb').read(): print('found')\n"
            "  except OSError: pass\n"
            "try: open('/proc/PARENT/mem', 'rb')\n"
            "except OSError as error: print(type(error).__name__)"
        )
        run = f"import os\nfrom assay.tools import python\nprint(python({code!r}.replace('PARENT', str(os.getpid()))))"
        done = subprocess.run(
            [sys.executable, "-c", run],
            capture_output=True,
            text=True,
            env={"OPENAI_API_KEY": "hunter2", "PATH": os.environ["PATH"]},
        )
        assert done.stdout == "PermissionError\n", done.stderr

    def test_it_gains_no_rights(self, require_fences: Need) -> None:
        """By no program that brings its own."""
        require_fences("files")
        reply = python(
            "print([line for line in open('/proc/self/status') if 'NoNewPrivs' in line])"
        )
        assert reply == "['NoNewPrivs:\\t1\\n']"

    def test_it_has_no_file_of_ours_open(self, tmp_path: Path) -> None:
        """But its three streams; the fourth is its look at the list."""
        with (tmp_path / "open").open("w") as file:
            os.set_inheritable(file.fileno(), True)
            assert python("import os; print(len(os.listdir('/proc/self/fd')))") == "4"
