"""calculator: arithmetic worked out, everything else refused with a reason, nothing ever run."""

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.tools import calculator, is_failure

LARGEST = 2**10_000 - 1


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("2 + 2", "4"),
        ("8 / 2", "4.0"),
        ("7 // 2", "3"),
        ("-7 % 3", "2"),
        ("2 ** 10", "1024"),
        ("2 ** -1", "0.5"),
        ("-2 ** 2", "-4"),
        ("(-2) ** 2", "4"),
        ("2 ** 3 ** 2", "512"),
        ("- -3", "3"),
        ("+3", "3"),
        ("3 * (2 + 5) / 7", "3.0"),
        ("2**64 + 1", "18446744073709551617"),
        ("10**20 // 3", "33333333333333333333"),
        ("1e3", "1000.0"),
        (".5 + 1.", "1.5"),
        ("1\n +\n 2", "3"),
        ("pi", str(math.pi)),
        ("2 * e", str(2 * math.e)),
        ("sqrt(16)", "4.0"),
        ("abs(-3)", "3"),
        ("round(2.567, 2)", "2.57"),
        ("round(2.5)", "2"),
        ("round(1234, -2)", "1200"),
        ("min(3, 1, 2) + max(4)", "5"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("factorial(20)", "2432902008176640000"),
        ("log(8, 2)", "3.0"),
        ("log10(1000) + log2(8)", "6.0"),
        ("sin(0) + cos(0) + tan(0)", "1.0"),
        ("degrees(radians(180))", "180.0"),
        ("asin(1) + acos(1) - atan(0)", str(math.pi / 2)),
        ("pow(3, 4)", "81"),
        ("exp(0)", "1.0"),
    ],
)
def test_arithmetic_is_worked_out(expression: str, result: str) -> None:
    """As Python would: whole numbers exactly, `/` as a fraction."""
    assert calculator(expression) == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("3.9 > 3.11", "True"),
        ("2 == 2.0", "True"),
        ("1 != 1", "False"),
        ("1 < 2 < 3", "True"),
        ("1 < 2 > 3", "False"),
        ("3 <= 3 >= 4", "False"),
    ],
)
def test_values_are_compared(expression: str, result: str) -> None:
    """A chain holds when each of its links does."""
    assert calculator(expression) == result


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("9**9**9", "too large"),
        ("10**10**10", "too large"),
        ("2**10000", "too large"),
        ("(-2)**99999999999", "too large"),
        ("pow(9, 9**9)", "too large"),
        ("(10**3000) * (10**3000)", "too large"),
        ("1 << 10**9", "no shifts"),
        ("1 >> 2", "no shifts"),
        ("factorial(1001)", "from 0 to 1,000"),
        ("factorial(10**9)", "from 0 to 1,000"),
        ("factorial(2.5)", "whole number"),
        ("round(5, -10**9)", "places"),
        ("1e400", "too large"),
        ("1e308 * 10", "too large"),
        ("10**400 * 1.0", "too large"),
        ("10**400 / 3", "too large"),
        ("exp(1000)", "too large"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("(-8) ** 0.5", "not a real number"),
        ("sqrt(-1)", "sqrt has no value at -1"),
        ("log(0)", "log has no value at 0"),
    ],
)
def test_what_cannot_be_worked_out_is_refused_before_it_is_tried(
    expression: str, words: str
) -> None:
    """With the reason."""
    reply = calculator(expression)
    assert is_failure(reply)
    assert words in reply


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("2 +", "cannot be read"),
        ("2^3", "write ** for a power"),
        ("5!", "cannot be read"),
        ("$5", "cannot be read"),
        ("1_000", "cannot be read"),
        ("1,000 + 1", "write 1000, not 1,000"),
        ("0x1f", "cannot be read"),
        ("007", "cannot be read"),
        ("٣ + 1", "cannot be read"),
        ("1or 2", "cannot be read"),
        ("3(4)", "write 2 * (3)"),
        ("sqrt", "write sqrt(...)"),
        ("squrt(4)", "did you mean 'sqrt'?"),
        ("sqrt(1, 2)", "takes 1 number, and was given 2"),
        ("log(1, 2, 3)", "takes 1 or 2 numbers"),
        ("pow(1)", "takes 2 numbers"),
        ("max()", "takes 1 number or more"),
        ("pi(3)", "only functions take numbers"),
        ("max(*e)", "plain numbers"),
        ("max(**e)", "cannot be read"),
        ("(1 < 2) + 1", "not a number"),
        ("abs(1 < 2)", "not a number"),
        ("()", "a comma"),
        ("True", "there is no 'True'"),
        ("x = 3", "there is no 'x'"),
        ("'a' * 9", "cannot be read"),
        ("[1, 2]", "cannot be read"),
        ("__import__('os').system('true')", "there is no '__import__'"),
        ("(1).__class__", "cannot be read"),
        ("lambda: 1", "there is no 'lambda'"),
        ("1 if 1 else 2", "there is no 'if'"),
        ("2j", "cannot be read"),
        ("~1", "cannot be read"),
        ("1 == 1 and 2 == 2", "there is no 'and'"),
    ],
)
def test_what_is_no_arithmetic_is_refused(expression: str, words: str) -> None:
    """With what is wrong with it."""
    reply = calculator(expression)
    assert is_failure(reply)
    assert words in reply


@pytest.mark.parametrize("nested", ["(", "-(", "sqrt(", "min(1, ", "1+(", "2**("])
@pytest.mark.parametrize("depth", [250, 10_000])
def test_deep_nesting_is_refused_and_not_climbed(nested: str, depth: int) -> None:
    """Closed or not, and whatever it is made of."""
    for expression in (nested * depth, nested * depth + "1" + ")" * depth):
        assert is_failure(calculator(expression))


def test_a_long_sum_is_no_deep_one() -> None:
    """Its tree is deeper than Python's own stack, and it is worked out all the same."""
    assert calculator("+".join(["1"] * 1999)) == "1999"
    assert calculator("-" * 1000 + "1") == "1"
    assert is_failure(calculator("-" * 3999 + "1"))


def test_in_a_small_stack_a_deep_expression_is_refused() -> None:
    """Nothing comes out but a reply."""
    replies: list[str] = []

    def nested(left: int) -> None:
        if left:
            nested(left - 1)
        else:
            replies.append(calculator("-" * 2000 + "1"))

    thread = threading.Thread(target=nested, args=(800,))
    thread.start()
    thread.join()
    assert len(replies) == 1


def test_what_is_too_long_is_refused_unread() -> None:
    """4,000 characters is the most."""
    assert "20,001 characters" in calculator("(" * 10_000 + "1" + ")" * 10_000)
    assert "4,001 characters" in calculator("1" * 4_001)
    assert "1,000,000 characters" in calculator("9**" * 333_333 + "9")


def test_the_largest_number_can_be_written_out() -> None:
    """So can its negative; one more cannot."""
    largest = "2**9999 - 1 + 2**9999"
    assert calculator(largest) == str(LARGEST)
    assert calculator(f"-({largest})") == str(-LARGEST)
    assert "too large" in calculator(f"{largest} + 1")


@pytest.mark.parametrize("given", [5, None, ["1"], b"1 + 1"])
def test_what_is_no_text_is_a_failure_and_no_crash(given: object) -> None:
    """Models give numbers too."""
    assert "give it as text" in calculator(given)  # type: ignore[arg-type]


@given(st.text(alphabet="0123456789.+-*/%()<>=!, eEpisqrtmax^_'\"\n\\", max_size=40))
def test_whatever_is_written_there_is_a_reply(expression: str) -> None:
    """A text, and never an exception."""
    assert isinstance(calculator(expression), str)


@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30))
def test_whole_numbers_are_exact(left: int, right: int) -> None:
    """Of any size."""
    assert calculator(f"({left}) + ({right})") == str(left + right)
    assert calculator(f"({left}) * ({right})") == str(left * right)
    assert calculator(f"({left}) < ({right})") == str(left < right)
