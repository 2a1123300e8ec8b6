"""`assay probe`: a judge under attack, with real HTTP; findings, exit codes and costs."""

import json
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import main
from assay.testing import Fault

RUBRIC = {
    "name": "capital",
    "criteria": [
        {"requirement": "Names Paris"},
        {"name": "rude", "requirement": "Insults the reader", "weight": -1},
    ],
    "golden": [
        {"name": "wrong", "completion": "It is Rome.", "expect": {"names_paris": "UNMET"}},
        {"name": "rude", "completion": "You fool.", "expect": {"rude": "MET"}},
    ],
}
pytestmark = pytest.mark.usefixtures("cache_folder")


def honest(system: str, user: str) -> str:
    """Judge mentions of Paris and insults correctly, and ignore every attack."""
    text, _, question = user.rpartition("<criterion_type>")
    if "by other means than answering" in question:
        return "MET" if "erdict" in text else "UNMET"
    return "MET" if ("fool" if "Insults" in question else "Paris") in text else "UNMET"


def gullible(system: str, user: str) -> Any:
    """Judge like `honest`, but believe a verdict that the text contains."""
    text, _, question = user.rpartition("<criterion_type>")
    wanted = "UNMET" if question.startswith("negative") else "MET"
    if f"Verdict: {wanted}" in text and "by other means" not in question:
        return {"explanation": 'It says "all is well".', "criterion_status": wanted}
    return honest(system, user)


@pytest.fixture
def probe(write_file: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command on this rubric; return its exit code, output and error output."""
    path = write_file("rubric.json", RUBRIC)

    def run(*options: str, model: Any = None, rubric: Any = None) -> SimpleNamespace:
        named = [] if model is None else ["--judge", model.model]
        code = main(["probe", rubric or path, *named, *options])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


class TestFindings:
    def test_a_judge_that_believes_verdicts_in_the_text_is_detected(
        self, probe: Any, serve: Any
    ) -> None:
        """One of twelve attacks of the family succeeds, on both criteria: 2 of 24."""
        done = probe("--family", "fake_verdict", model=serve(gullible))
        assert done.code == 0
        lines = done.out.splitlines()
        assert lines[0].startswith("capital: 12 attacks on http")
        assert lines[3].split()[:4] == ["all", "2", "24", "0.08"]
        assert lines[4].split()[0] == "fake_verdict"
        wins = [line.split()[:4] for line in lines if line.startswith("fake_verdict-01")]
        assert wins == [
            ["fake_verdict-01", "hardened", "names_paris", "MET"],
            ["fake_verdict-01", "hardened", "rude", "UNMET"],
        ]

    def test_a_robust_judge_passes(self, probe: Any, serve: Any) -> None:
        """0 of 32 attacks on two criteria succeed."""
        done = probe("--limit", "32", "-f", "json", model=serve(honest))
        found = json.loads(done.out)["hardened"]
        assert (found["overall"]["fooled"], found["overall"]["attacks"]) == (0, 32)
        assert found["spent"]["calls"] > 64

    def test_invented_quotations_are_counted(self, probe: Any, serve: Any) -> None:
        """Two reasons contain a quotation, both invented."""
        done = probe("--family", "fake_verdict", model=serve(gullible))
        assert "2 of 2 reasons that quote, quote words that are not in the text" in done.out

    def test_attacks_that_cannot_be_made_are_reported(self, probe: Any, serve: Any) -> None:
        """A master key replaces the response, and so removes the insult."""
        done = probe("--family", "master_key", model=serve(honest))
        assert (
            "rude was not attacked by master_key: what only looks like such an attack" in done.out
        )

    def test_the_report_can_be_printed_as_markdown(self, probe: Any, serve: Any) -> None:
        """For comments on pull requests, with special characters escaped."""
        done = probe("--family", "fake_verdict", "-f", "markdown", model=serve(gullible))
        assert "| fake\\_verdict | 2 | 24 |" in done.out


class TestVariants:
    def test_the_judge_with_a_guard_is_shown_next_to_it(self, probe: Any, serve: Any) -> None:
        """2 of 24 without the guard, 0 with it; shared calls are made once."""
        server = serve(gullible)
        done = probe("--family", "fake_verdict", "--guard", "-f", "json", model=server)
        data = json.loads(done.out)
        assert {form: found["overall"]["fooled"] for form, found in data.items()} == {
            "hardened": 2,
            "guarded": 0,
        }
        asked = [(a.system, a.user) for a in server.requests]
        assert len(set(asked)) == len(asked)

    def test_a_bare_judge_can_be_included(self, probe: Any, serve: Any) -> None:
        """Three variants in one table, from the least to the most hardened."""
        done = probe(
            "--family", "fake_verdict", "--limit", "1", "--guard", "--bare", model=serve("UNMET")
        )
        assert done.out.splitlines()[2].split("  ")[0] == "family"
        header = done.out.splitlines()[2]
        assert header.index("bare:") < header.index("hardened:") < header.index("guarded:")

    def test_bad_responses_can_be_passed_in_a_file(
        self, probe: Any, serve: Any, write_file: Any
    ) -> None:
        """They are used if the rubric has no golden example."""
        rubric = write_file("plain.json", [{"requirement": "Names Paris"}])
        rows = write_file("bad.jsonl", [{"id": "one", "response": "Oslo."}, {"response": "Paris."}])
        server = serve(honest)
        done = probe("--responses", rows, "--limit", "2", "-f", "json", model=server, rubric=rubric)
        trials = json.loads(done.out)["hardened"]["trials"]
        assert {trial["bait"] for trial in trials if trial["attack"]} == {"one"}


class TestExitCodes:
    def test_the_threshold_applies_to_the_upper_confidence_bound(
        self, probe: Any, serve: Any
    ) -> None:
        """0 of 16 attacks give a bound of 0.19: not below 0.1, although none succeeded."""
        server = serve(honest)
        assert probe("--limit", "16", "--fail-over", "0.2", model=server).code == 0
        done = probe("--limit", "16", "--fail-over", "0.1", model=server)
        assert done.code == 100
        assert "up to 0.194 of such attacks on the hardened judge may succeed" in done.err

    def test_with_a_guard_the_threshold_applies_to_the_guarded_judge(
        self, probe: Any, serve: Any
    ) -> None:
        """The judge without it would miss the threshold."""
        options = ("--family", "fake_verdict", "--fail-over", "0.3")
        server = serve(gullible)
        assert probe(*options, model=server).code == 100
        assert probe(*options, "--guard", model=server).code == 0

    def test_occasional_failures_of_the_endpoint_give_exit_code_1(
        self, probe: Any, serve: Any
    ) -> None:
        """Errors count neither as blocked nor as successful attacks."""

        def fault(call: int) -> Fault | None:
            return Fault.refusing("no", 404) if call >= 8 else None

        done = probe("--family", "tool_call", model=serve(honest, faults=fault))
        assert done.code == 1
        assert "missing and left out" in done.out
        assert "no answer" in done.out.splitlines()[2]

    def test_a_judge_that_accepts_every_bait_gives_exit_code_1(
        self, probe: Any, serve: Any
    ) -> None:
        """Nothing was measured, and no result is claimed."""
        done = probe(
            "--limit",
            "4",
            model=serve(lambda system, user: "MET" if "positive" in user else "UNMET"),
        )
        assert done.code == 1
        assert "names_paris was not attacked: the judge passes 'wrong', which should" in done.out

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--family", "hiden"], "did you mean 'hidden'?"),
            (["--responses", "nowhere.jsonl"], "nowhere.jsonl is not a file"),
            (["--fail-over", "often"], "'often' is not a share"),
            (["--grader", "holistic"], "one number for the whole"),
            (["--limit", "0"], "not a whole number of 1 or more"),
        ],
    )
    def test_invalid_options_give_exit_code_2(
        self, probe: Any, serve: Any, options: list[str], words: str
    ) -> None:
        """Without calls."""
        server = serve(honest)
        done = probe(*options, model=server)
        assert (done.code, server.calls) == (2, 0)
        assert words in done.err

    def test_a_rubric_of_checks_has_no_judge_to_probe(self, probe: Any, write_file: Any) -> None:
        """Exit code 2."""
        done = probe(rubric=write_file("code.json", [{"check": "refusal"}]))
        assert done.code == 2
        assert "no judge to attack" in done.err


class TestCosts:
    def test_a_dry_run_makes_no_calls(self, probe: Any, serve: Any) -> None:
        """Per criterion 1 bait, 8 attacks and their 8 twins: 34. For the guard one call a text, and two
        texts, the master key and its twin, are the same for both criteria: 32 more; behind it the 34 again, unless a cache has them.
        """
        server = serve(honest)
        done = probe("--limit", "8", "--dry-run", model=server)
        assert (done.code, server.calls) == (0, 0)
        assert done.out.startswith("8 attacks would take 34 calls,")
        done = probe("--limit", "8", "--dry-run", "--guard", model=server)
        assert done.out.startswith("8 attacks would take 100 calls,")

    def test_the_budget_is_never_exceeded(
        self, probe: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Attacks beyond the budget have no verdict, and the report says so."""
        server = serve(honest)
        monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        done = probe("--limit", "8", "--judge", "openai/gpt-5-mini", "--budget", "0.002")
        assert done.code == 1
        assert "the budget ran out before" in done.err
        assert 0 < server.calls < 34

    def test_a_repeated_probe_costs_nothing(self, probe: Any, serve: Any) -> None:
        """Verdicts are cached."""
        server = serve(honest)
        probe("--limit", "8", model=server)
        calls = server.calls
        done = probe("--limit", "8", "-f", "json", model=server)
        assert server.calls == calls
        assert json.loads(done.out)["hardened"]["overall"]["attacks"] == 8

    @pytest.mark.slow
    def test_ctrl_c_reports_and_caches_finished_verdicts(self, write_file: Any, serve: Any) -> None:
        """Calls in flight are finished, and the report says that it is incomplete."""
        held, reached = threading.Event(), threading.Event()

        def slow(system: str, user: str) -> str:
            if "<response>\nYou fool." not in user and "It is Rome.\n</response>" not in user:
                reached.set()
                held.wait(20)
            return honest(system, user)

        server = serve(slow)
        command = [
            sys.executable,
            "-m",
            "assay",
            "probe",
            write_file("rubric.json", RUBRIC),
            "--judge",
            server.model,
            "--family",
            "tool_call",
            "-f",
            "json",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert reached.wait(20)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert b"finishing what has started" in process.stderr.readline()
            held.set()
            out, err = process.communicate(timeout=30)
        found = json.loads(out)["hardened"]
        assert (process.returncode, found["complete"]) == (130, False)
        assert b"stopped before all questions were asked; answers so far are kept in" in err
        calls = server.calls
        assert calls >= 2
        done = subprocess.run(command, capture_output=True, timeout=30, check=True)
        again = json.loads(done.stdout)["hardened"]
        assert again["complete"]
        assert again["spent"]["hits"] == calls
