"""Calls: what goes to a worker, and what comes back."""

import gc
import math
import os
import sys
import threading
import weakref
from fractions import Fraction
from functools import partial

import pytest

from assay import MissingExtraError
from assay.isolation import Outcome, protocol


def add(a, b=0):
    return a + b


class Adder:
    def __init__(self, number):
        self.number = number

    def __call__(self, other):
        return self.number + other

    def double(self):
        return 2 * self.number


class TestFunctions:
    def test_a_name_is_imported_in_the_worker(self, pool):
        """`package.module:function`; the caller need not have it."""
        assert pool.call("colorsys:rgb_to_hsv", 0, 0, 0, timeout=60).value == (0.0, 0.0, 0)
        assert pool.call("os.path:basename", "a/b", timeout=60).value == "b"

    def test_it_runs_in_another_process(self, pool):
        """Which is not this one."""
        assert pool.call("os:getpid", timeout=60).value != os.getpid()

    @pytest.mark.parametrize(
        ("function", "args", "expected"),
        [
            (os.path.basename, ["a/b"], "b"),
            (len, ["abc"], 3),
            (add, [1, 2], 3),
            (lambda x: x + 1, [1], 2),
            (partial(add, b=5), [1], 6),
            (Adder(3), [4], 7),
            (Adder(3).double, [], 6),
            ("abc".upper, [], "ABC"),
        ],
        ids=["imported", "built-in", "own", "lambda", "partial", "object", "method", "bound"],
    )
    def test_anything_that_can_be_called_can_be_sent(self, pool, function, args, expected):
        """By name or by value."""
        assert pool.call(function, *args, timeout=60).value == expected

    def test_an_async_function_is_awaited(self, pool):
        """In the worker."""

        async def later(x):
            import asyncio

            await asyncio.sleep(0)
            return x

        assert pool.call(later, 7, timeout=60).value == 7

    def test_keywords_are_passed(self, pool):
        """In a mapping, since `timeout` is the pool's."""
        assert pool.call(add, 1, timeout=60, keywords={"b": 2}).value == 3

    def test_a_function_is_sent_to_a_worker_once(self, single_worker_pool):
        """What it keeps in the worker is there at the next call."""
        seen = []

        def remember(x):
            seen.append(x)
            return len(seen)

        assert [single_worker_pool.call(remember, 0, timeout=60).value for _ in range(3)] == [
            1,
            2,
            3,
        ]

    def test_a_function_is_not_kept_alive(self, single_worker_pool):
        """Nor what it holds."""

        class Large:
            pass

        held = Large()
        gone = weakref.ref(held)
        assert (
            single_worker_pool.call(lambda large=held: type(large).__name__, timeout=60).value
            == "Large"
        )
        del held
        gc.collect()
        assert gone() is None

    def test_without_cloudpickle_it_says_what_to_install(self, pool, monkeypatch):
        """For what cannot be imported by name."""
        monkeypatch.setattr(protocol, "_import_cloudpickle", lambda: None)
        with pytest.raises(MissingExtraError, match=r"pip install cloudpickle"):
            pool.call(lambda: 1, timeout=60)
        assert pool.call(os.path.basename, "a/b", timeout=60).value == "b"

    @pytest.mark.parametrize("name", ["os", "os:", ":getpid", "os.getpid", "os:get pid", ""])
    def test_a_text_that_names_no_function_is_refused(self, pool, name):
        """At once."""
        with pytest.raises(ValueError, match="names no function"):
            pool.submit(name, timeout=1)

    def test_what_cannot_be_called_is_refused(self, pool):
        """At once."""
        with pytest.raises(TypeError, match="3 cannot be called"):
            pool.submit(3, timeout=1)

    def test_a_function_that_cannot_be_sent_is_refused(self, pool):
        """With the reason."""
        lock = threading.Lock()
        with pytest.raises(TypeError, match=r"cannot be sent to a worker.*lock.*top of a module"):
            pool.submit(lambda: lock, timeout=1)

    def test_a_name_that_is_not_there_is_raised_in_the_worker(self, single_worker_pool):
        """Each time, as nothing was loaded."""
        for _ in range(2):
            outcome = single_worker_pool.call("no_such_module:f", timeout=60)
            assert outcome.kind == "raised"
            assert outcome.message == "ModuleNotFoundError: No module named 'no_such_module'"
        assert single_worker_pool.call("os:no_such_function", timeout=60).kind == "raised"
        assert single_worker_pool.call("os:getpid", timeout=60).ok


class TestArguments:
    @pytest.mark.parametrize("size", [0, 10, 100_000, 5_000_000])
    def test_any_size_goes_there_and_back(self, pool, size):
        """Much more than a pipe holds at a time."""
        data = b"x" * size
        assert pool.call(lambda x: x + b"!", data, timeout=60).value == data + b"!"

    def test_a_result_that_is_too_large_is_refused(self, single_worker_pool):
        """In the worker, with a sentence: this process need not hold it."""
        outcome = single_worker_pool.call(lambda: b"x" * (60 << 20), timeout=60)
        assert outcome.kind == "raised"
        assert (
            "it returned a bytes of 83,886,093 characters that cannot be sent back"
            in outcome.message
        )

    def test_an_argument_that_cannot_be_sent_is_named(self, pool):
        """By place, or by keyword."""
        with pytest.raises(TypeError, match=r"argument 2 of add, <unlocked.*cannot be sent"):
            pool.submit(add, 1, threading.Lock(), timeout=1)
        with pytest.raises(TypeError, match="argument 'b' of add"):
            pool.submit(add, 1, timeout=1, keywords={"b": threading.Lock()})

    def test_a_lambda_can_be_an_argument(self, pool):
        """What pickle cannot send, cloudpickle may."""
        assert pool.call(lambda f: f(3), lambda x: x * 2, timeout=60).value == 6

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
    def test_no_time_at_all_is_refused(self, pool, seconds):
        """And so is all the time there is."""
        with pytest.raises(ValueError, match=r"timeout is .*: give a number of seconds above 0"):
            pool.submit(add, 1, timeout=seconds)
        with pytest.raises(ValueError, match="hard_timeout is"):
            pool.submit(add, 1, timeout=1, hard_timeout=seconds)


class TestOutcomes:
    def test_a_value(self, pool):
        """With the time it took."""
        outcome = pool.call(add, 1, 2, timeout=60)
        assert (outcome.ok, outcome.value, outcome.kind, outcome.message) == (True, 3, None, "")
        assert outcome.seconds >= 0

    def test_none_is_a_value(self, pool):
        """So it is `ok` that tells."""
        assert pool.call(lambda: None, timeout=60) == Outcome(None, seconds=pytest.approx(0, abs=9))

    def test_an_exception(self, pool):
        """As text: its class need not exist here."""

        def fails():
            class OddError(Exception):
                def __init__(self, a, b):
                    super().__init__(f"{a} and {b}")

            raise OddError(1, 2)

        outcome = pool.call(fails, timeout=60)
        assert (outcome.ok, outcome.kind, outcome.message) == (False, "raised", "OddError: 1 and 2")
        assert "in fails" in outcome.trace
        assert "forkserver.py" not in outcome.trace

    @pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
    def test_an_exception_of_any_kind(self, single_worker_pool, error):
        """Also one that would end a process; the worker goes on."""

        def fails(kind):
            raise kind("x")

        before = single_worker_pool.call("os:getpid", timeout=60).value
        assert single_worker_pool.call(fails, error, timeout=60).message == f"{error.__name__}: x"
        assert single_worker_pool.call("os:getpid", timeout=60).value == before

    def test_a_value_that_cannot_be_sent_back(self, pool):
        """Is an error that says so."""
        outcome = pool.call("threading:Lock", timeout=60)
        assert outcome.kind == "raised"
        assert "it returned a lock that cannot be sent back" in outcome.message

    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            0,
            -1,
            2**64,
            -(3**5000),
            0.1,
            -0.0,
            5e-324,
            float("inf"),
            1j,
            "",
            "é\ud83d\0",
            b"\0\xff",
            [],
            [1, [2.0, "3"]],
            (),
            ((1,), [2]),
            {},
            {"int": 1},
            {1: "a", (2, b"x"): {3}},
            frozenset({"b"}),
        ],
        ids=repr,
    )
    def test_plain_data_comes_back_exactly(self, single_worker_pool, value):
        """The same value of the same type, however nested."""
        returned = single_worker_pool.call(lambda value: value, value, timeout=60).value
        assert (returned, type(returned), repr(returned)) == (value, type(value), repr(value))

    def test_a_nan_comes_back(self, single_worker_pool):
        """Though it equals nothing."""
        assert math.isnan(single_worker_pool.call("builtins:float", "nan", timeout=60).value)

    def test_numbers_of_other_libraries_come_back_as_numbers(self, single_worker_pool):
        """Whole ones as ints, all others as floats."""
        numpy = pytest.importorskip("numpy")
        numbers = [numpy.int64(3), numpy.float32(0.5), Fraction(1, 4), numpy.bool_(True)]
        returned = [
            single_worker_pool.call(lambda number: number, number, timeout=60).value
            for number in numbers
        ]
        assert returned == [3, 0.5, 0.25, 1]
        assert [type(number) for number in returned] == [int, float, float, float]

    def test_nothing_that_a_worker_returns_is_unpickled(self, single_worker_pool, tmp_path):
        """An object that would run code when it is unpickled is refused in the worker."""

        class Hostile:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "made"),)

        outcome = single_worker_pool.call(Hostile, timeout=60)
        assert outcome.kind == "raised"
        assert "it returned a Hostile that cannot be sent back" in outcome.message
        assert not (tmp_path / "made").exists()


class TestNoise:
    def test_what_a_function_prints_does_not_get_into_the_way(self, pool):
        """By Python or past it; on both streams."""

        def noisy():
            import os
            import sys

            sys.stdout.write("noise " * 10_000)
            os.write(1, b"\0\xff" * 10_000)
            sys.stderr.write("noise")
            return 5

        assert pool.call(noisy, timeout=60).value == 5

    def test_it_is_shown_on_stderr(self, tmp_path):
        """So that the output of a program is what the program prints."""
        import subprocess

        code = (
            "from assay.isolation import Pool\n"
            "with Pool(max_workers=1) as pool:\n"
            "    pool.call('builtins:print', 'from the worker', timeout=60)\n"
            "print('from the program')\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("from the program\n", "from the worker\n")

    def test_it_cannot_read_stdin(self, pool):
        """Which is the program's."""
        assert pool.call("sys:stdin.read", timeout=60).value == ""
