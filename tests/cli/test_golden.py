"""`assay rubric test`: golden examples on the command line."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from assay.cli import main
from assay.testing import Fault

RUBRIC = {
    "name": "capital",
    "criteria": [{"requirement": "Names Paris"}, {"check": {"max_words": 3}}],
    "golden": [
        {"name": "good", "completion": "Paris.", "expect": {"names_paris": "MET", "max_words": 1}},
        {"name": "bad", "completion": "Rome.", "expect": {"names_paris": "UNMET"}},
    ],
}
pytestmark = pytest.mark.usefixtures("cache_folder")


def answer_by_words(system: str, user: str) -> str:
    return "MET" if "Paris" in user.rpartition("<criterion_type>")[0] else "UNMET"


@pytest.fixture
def run_rubric_test(write_file: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command on this rubric; return its exit code, output and error output."""

    def run(*options: str, model: Any = None, rubric: Any = RUBRIC) -> tuple[int, str, str]:
        named = [] if model is None else ["--judge", model.model]
        code = main(["rubric", "test", write_file("rubric.json", rubric), *named, *options])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_exit_code_0_if_all_verdicts_are_as_expected(run_rubric_test: Any, serve: Any) -> None:
    """The cost is printed."""
    code, out, _ = run_rubric_test(model=serve(answer_by_words))
    assert code == 0
    assert out.splitlines()[0] == "capital: 2 golden examples, 3 of 3 verdicts as expected"
    assert "2 calls" in out


def test_an_unexpected_verdict_is_shown_with_its_reason(run_rubric_test: Any, serve: Any) -> None:
    """Exit code 100, and one row."""
    code, out, _ = run_rubric_test(model=serve("MET"))
    assert code == 100
    assert out.splitlines()[2:4] == [
        "example  criterion    expected  got  why",
        "bad      names_paris  UNMET     MET  because the rule says so",
    ]


def test_a_missing_verdict_is_an_error_and_not_a_failure(run_rubric_test: Any, serve: Any) -> None:
    """Exit code 1."""
    server = serve(faults=lambda call: Fault.refusing("no such model", 404))
    code, out, _ = run_rubric_test(model=server)
    assert code == 1
    assert "1 of 3 verdicts as expected, 2 without an answer" in out
    assert "no such model" in out


def test_results_can_be_printed_as_json_and_junit(run_rubric_test: Any, serve: Any) -> None:
    """Every expectation is a result, and a test case."""
    code, out, _ = run_rubric_test("-f", "json", model=serve("MET"))
    data = json.loads(out)
    assert (code, data["expected"], data["wrong"], data["errors"]) == (100, 3, 1, 0)
    assert data["results"][2]["got"] == "MET"
    _, out, _ = run_rubric_test("-f", "junit", model=serve("MET"))
    suite = ElementTree.fromstring(out)
    assert suite.attrib == {"tests": "3", "failures": "1", "errors": "0"}
    [failure] = suite.iter("failure")
    assert failure.attrib["message"] == "expected UNMET, got MET"


def test_text_that_xml_cannot_hold_is_escaped(run_rubric_test: Any, serve: Any) -> None:
    """A judge may return any text."""
    said = {"explanation": "bell \x07 & <tag>", "criterion_status": "MET"}
    _, out, _ = run_rubric_test("-f", "junit", model=serve(lambda system, user: said))
    [failure] = ElementTree.fromstring(out).iter("failure")
    assert failure.text == "bell \\x07 & <tag>"


def test_a_dry_run_estimates_the_cost_without_calls(run_rubric_test: Any, serve: Any) -> None:
    server = serve("MET")
    code, out, _ = run_rubric_test("--dry-run", model=server)
    assert (code, server.calls) == (0, 0)
    assert out.startswith("2 examples would take 2 calls")


def test_a_rubric_of_checks_needs_no_judge(run_rubric_test: Any) -> None:
    rubric = {
        "criteria": [{"check": {"max_words": 3}}],
        "golden": [{"completion": "one two three four", "expect": {"max_words": "UNMET"}}],
    }
    assert run_rubric_test(rubric=rubric)[0] == 0


def test_a_rubric_without_golden_examples_is_refused(run_rubric_test: Any) -> None:
    """Exit code 2; the message says what to do."""
    code, _, err = run_rubric_test(rubric=[{"check": "refusal"}])
    assert code == 2
    assert "no golden examples: list some under 'golden'" in err


def test_an_example_that_can_never_pass_is_refused(run_rubric_test: Any) -> None:
    """Exit code 2, before any call."""
    golden = [{"completion": "x", "expect": {"refusal": "PERHAPS"}}]
    code, _, err = run_rubric_test(rubric={"criteria": [{"check": "refusal"}], "golden": golden})
    assert code == 2
    assert "refusal is expected to be 'PERHAPS'" in err


def test_an_example_may_limit_the_score(run_rubric_test: Any, serve: Any) -> None:
    """With or without verdicts; it is a separate result."""
    golden = [
        {"name": "good", "completion": "Paris.", "score": {"at_least": 0.8}},
        {"name": "bad", "completion": "Rome.", "score": {"at_least": 0.2, "at_most": 0.4}},
        {"name": "half", "completion": "Oslo.", "score": 0.5, "expect": {"max_words": 1}},
    ]
    code, out, _ = run_rubric_test(
        model=serve(answer_by_words), rubric={**RUBRIC, "golden": golden}
    )
    assert code == 100
    assert out.splitlines()[0] == "capital: 3 golden examples, 3 of 4 verdicts as expected"
    assert "bad      score      at least 0.2 and at most 0.4  0.5" in out


def test_an_example_may_have_columns_that_criteria_name(run_rubric_test: Any) -> None:
    """Like the rows of the data."""
    rubric = {
        "criteria": [{"check": {"contains": "{order}"}}],
        "golden": [{"completion": "A-17", "columns": {"order": "A-17"}, "expect": {"contains": 1}}],
    }
    assert run_rubric_test(rubric=rubric)[0] == 0


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ({"at_least": 0.8, "at_most": 0.2}, "no score is between the two"),
        ({"minimum": 1}, "give {at_least: 0.8}"),
        ("high", "give {at_least: 0.8}"),
    ],
)
def test_invalid_score_limits_are_refused(run_rubric_test: Any, score: Any, message: str) -> None:
    """Before any call."""
    golden = [{"completion": "Paris.", "score": score}]
    code, _, err = run_rubric_test(rubric={**RUBRIC, "golden": golden})
    assert (code, message in err) == (2, True)
