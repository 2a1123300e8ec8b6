"""Code that forks, lies, or writes where it should not: no task gets another's value, and every task ends."""

import os
import signal
from concurrent.futures import wait
from pathlib import Path

import pytest

from assay.isolation import Pool, protocol


@pytest.fixture
def pool():
    with Pool(max_workers=2, preload=["cloudpickle", __name__]) as made:
        yield made


@pytest.fixture
def single_worker_pool():
    with Pool(max_workers=1, preload=["cloudpickle", __name__]) as made:
        yield made


FORKS = {
    "returns in both processes": "os.fork()",
    "returns in four processes": "os.fork(), os.fork()",
    "raises in the child": "if os.fork() == 0: raise ValueError",
    "exits in the child": "if os.fork() == 0: sys.exit(3)",
    "leaves a child that sleeps": "if os.fork() == 0: time.sleep(1000)",
    "leaves a child that computes": "if os.fork() == 0:\n while True: pass",
    "leaves a child that talks": "if os.fork() == 0:\n while True: write_everywhere()",
    "leaves a daemon": "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(1000)\n os._exit(0)",
    "forks past Python": "ctypes.PyDLL(None).fork()",
    "waits for its child": "if os.fork() == 0: os._exit(0)\nos.wait()",
}


def obey(code, value):
    """Run a completion, and give a value that only this call can have."""
    import contextlib
    import ctypes
    import os
    import sys
    import time

    def write_everywhere():
        for fd in range(3, 40):
            with contextlib.suppress(OSError):
                os.write(fd, b"a" + bytes(40))

    names = {"os": os, "sys": sys, "time": time, "ctypes": ctypes}
    exec(code, {**names, "write_everywhere": write_everywhere})
    return value


def children_of(pid):
    """The processes that a process has started, dead ones that it has not waited for among them."""
    try:
        return {*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())}
    except FileNotFoundError:
        return set()


def test_three_hundred_tasks_of_which_some_fork(pool, has_ended):
    """Each gets its own value, each ends, and no process is left."""
    codes = ["", "", *FORKS.values()]
    template = pool.call("os:getppid", timeout=60).value
    tasks = [pool.submit(obey, codes[n % len(codes)], n, timeout=60) for n in range(300)]
    assert not wait(tasks, timeout=250).not_done
    wrong = [(n, task.result()) for n, task in enumerate(tasks) if task.result().value != n]
    assert wrong == []
    left = children_of(template)
    pool.close()
    assert all(has_ended(pid) for pid in (template, *left))


@pytest.mark.parametrize("name", FORKS)
def test_a_task_that_forks_gets_its_own_value(single_worker_pool, name):
    """And so does the next one, whoever else holds the pipe."""
    assert single_worker_pool.call(obey, FORKS[name], "first", timeout=60).value == "first"
    assert [single_worker_pool.call(obey, "", n, timeout=60).value for n in range(5)] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_the_exit_status_of_a_forked_child_is_its_own(single_worker_pool):
    """A child that leaves the function ends with the status that it asked for."""
    code = "if os.fork() == 0: sys.exit(7)\nif os.waitstatus_to_exitcode(os.wait()[1]) != 7: raise ValueError"
    assert single_worker_pool.call(obey, code, "ok", timeout=60).value == "ok"


def test_a_worker_whose_child_goes_on_without_it(single_worker_pool):
    """Has ended itself, and the child cannot answer for it."""
    outcome = single_worker_pool.call(obey, "if os.fork(): os._exit(0)", "child", timeout=60)
    assert (outcome.kind, outcome.value) == ("crashed", None)
    assert single_worker_pool.call(obey, "", 5, timeout=60).value == 5


def test_busy_children_do_not_put_the_deadline_off(single_worker_pool):
    """They take the processor from the process that is watched."""
    code = "for _ in range(6):\n if os.fork() == 0:\n  while True: pass\nwhile True: pass"
    assert single_worker_pool.call(obey, code, 0, timeout=0.1).kind == "timeout"
    assert single_worker_pool.call(obey, "", 5, timeout=60).value == 5


def test_a_daemon_ends_with_its_worker(single_worker_pool, report_pipe, has_ended):
    """Though it has left the worker's process group."""

    def leaves_a_daemon(path):
        import os
        import time

        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                path.write_text(str(os.getpid()))
                time.sleep(1000)
            os._exit(0)
        os.wait()
        time.sleep(1000)

    task = single_worker_pool.submit(leaves_a_daemon, report_pipe.path, timeout=0.5)
    [daemon] = report_pipe.read_pids()
    assert task.result().kind == "timeout"
    assert has_ended(daemon)


def test_no_zombie_is_left_while_the_pool_goes_on(single_worker_pool, has_ended):
    """The template waits for what workers leave behind."""
    template = single_worker_pool.call("os:getppid", timeout=60).value
    for _ in range(5):
        assert single_worker_pool.call(obey, FORKS["leaves a daemon"], 1, timeout=60).value == 1
        assert (
            single_worker_pool.call(obey, FORKS["returns in four processes"], 1, timeout=60).value
            == 1
        )
    worker = single_worker_pool.call("os:getpid", timeout=60).value
    for child in children_of(template) - {worker}:
        assert has_ended(child)
    while children_of(template) != {worker}:
        assert single_worker_pool.call("os:getpid", timeout=60).value == worker


def pipe_of_this_worker():
    """The worker's own end of its pipe, and the token of the task it does: what hostile code can find."""
    import sys

    frame = sys._getframe()
    while frame.f_code.co_name != "_do_task":
        frame = frame.f_back
    return frame.f_locals["self"]._pipe, frame.f_locals["token"]


def answers_itself(kind, token, said, value):
    """Say something in the worker's place, then return as usual."""
    from assay.isolation import protocol

    pipe, real = pipe_of_this_worker()
    pipe.sendall(protocol.encode_message(kind, said, token=real if token is None else token))
    return value


OTHER = b"another token..."
LIE = b'[["value", 0.0, false], "lie"]'


@pytest.mark.parametrize(
    ("kind", "token", "said"),
    [
        (protocol.ANSWER, OTHER, LIE),
        (protocol.HELLO, OTHER, b""),
        (protocol.STARTED, OTHER, b"[0, 0, 0]"),
        (b"?", None, b""),
        (protocol.ANSWER, None, b"no JSON"),
        (protocol.ANSWER, None, b"[1, 2, 3]"),
        (protocol.ANSWER, None, b'[["value", 0.0, false], {"tuple": 1, "int": 2}]'),
        (
            protocol.ANSWER,
            None,
            b'[["value", 0.0, false], ' + b"[" * 100_000 + b"]" * 100_000 + b"]",
        ),
        (protocol.ANSWER, None, b'[["value", 0.0, false], ' + b"9" * 100_000 + b"]"),
        (protocol.ANSWER, None, b"\xff\xfe"),
    ],
    ids=[
        "another token",
        "hello",
        "started",
        "unknown",
        "no JSON",
        "too short",
        "two tags",
        "deep",
        "digits",
        "bytes",
    ],
)
def test_a_worker_that_says_something_unexpected_is_ended(single_worker_pool, kind, token, said):
    """Its task is asked again, and has crashed when that ends the same way; the next one is right."""
    outcome = single_worker_pool.call(answers_itself, kind, token, said, "value", timeout=60)
    assert (outcome.kind, outcome.value) == ("crashed", None)
    assert outcome.message.startswith("RuntimeError: its worker was ended since it")
    assert outcome.message.endswith("and so was a second one")
    assert single_worker_pool.call(obey, "", 5, timeout=60).value == 5
    assert single_worker_pool.stats().killed == 2


def test_a_message_without_end_is_not_waited_for(single_worker_pool):
    """A length beyond any answer is junk, and costs this process no memory."""

    def announces():
        pipe, _ = pipe_of_this_worker()
        pipe.sendall(protocol.HEAD.pack(protocol.ANSWER, protocol.NO_TOKEN, 1 << 60))

    outcome = single_worker_pool.call(announces, timeout=60)
    assert outcome.kind == "crashed"
    assert "it said more than it may" in outcome.message


def test_an_answer_is_no_answer_to_the_next_task(single_worker_pool, tmp_path):
    """A token is good for one task: a worker that repeats its last answer is ended, and the task done by another."""

    def repeats_the_last_answer(value, first_time):
        import sys

        pipe, token = pipe_of_this_worker()
        last = sys.__dict__.setdefault("kept_answers", [])
        if last:
            pipe.sendall(last[0])
        last.append(protocol.encode_message(protocol.ANSWER, LIE, token=token))
        return value

    values = [
        single_worker_pool.call(repeats_the_last_answer, n, tmp_path, timeout=60).value
        for n in range(6)
    ]
    assert values == [*range(6)]
    assert single_worker_pool.stats().killed == 5


def test_what_an_idle_worker_says_is_heard_by_no_task(single_worker_pool, report_pipe):
    """The worker is replaced before it is given the next one."""

    def talks_later(path):
        import os
        import signal

        pipe, _ = pipe_of_this_worker()

        def talk(*_):
            pipe.sendall(b"junk" * 100)
            path.write_text(str(os.getpid()))

        signal.signal(signal.SIGUSR1, talk)
        return os.getpid()

    worker = single_worker_pool.call(talks_later, report_pipe.path, timeout=60).value
    os.kill(worker, signal.SIGUSR1)
    # The signal is handled when the worker is woken, at the latest by its next task.
    assert single_worker_pool.call(obey, "", 5, timeout=60).value == 5
    assert single_worker_pool.call(obey, "", 6, timeout=60).value == 6


@pytest.mark.parametrize("told", [(1e9, 1e9, 10**9), (-1e9, -1e9, -1), ("a", None, [])], ids=str)
def test_a_worker_cannot_talk_a_deadline_away(single_worker_pool, told):
    """What it says of its own working time, before and after, is checked against the kernel's count."""

    def lies(told):
        import sys

        class Lie(tuple):
            sleeps = 0

        forkserver = sys.modules["assay.isolation.forkserver"]
        forkserver.ProcessCounts, forkserver.measure_work = (
            lambda *_: Lie(told),
            lambda *_, **__: told[0],
        )

    first = single_worker_pool.call(lies, told, timeout=60)
    assert first.ok or first.kind in ("crashed", "timeout")
    assert single_worker_pool.call(obey, "while True: pass", 0, timeout=0.2).kind in (
        "timeout",
        "crashed",
    )
    single_worker_pool.call("os:abort", timeout=60)
    assert single_worker_pool.call(obey, "", 5, timeout=60).value == 5


def test_an_answer_that_never_ends_is_not_waited_for(single_worker_pool, monkeypatch):
    """The deadline holds while bytes keep coming."""
    monkeypatch.setattr("assay.isolation.process.DELIVERY_SECONDS", 0.2)

    def drips():
        pipe, token = pipe_of_this_worker()
        pipe.sendall(protocol.HEAD.pack(protocol.ANSWER, token, 1 << 25))
        while True:
            pipe.sendall(b" ")

    assert single_worker_pool.call(drips, timeout=0.2).kind == "timeout"
    assert single_worker_pool.call(obey, "", 5, timeout=60).value == 5


def test_a_fresh_process_for_every_task():
    """With `recycle_after=1` nothing that a task did to its worker meets the next."""
    tamper = "sys.modules['assay.isolation.forkserver']._call = lambda *_: 'tampered'"
    with Pool(max_workers=2, recycle_after=1, preload=["cloudpickle", __name__]) as pool:
        tasks = [pool.submit(obey, tamper, n, timeout=60) for n in range(20)]
        assert [task.result().value for task in tasks] == [*range(20)]
