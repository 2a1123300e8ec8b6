"""`assay math`: verdicts with reasons for one pair or a file of pairs."""

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from assay.cli import main
from assay.math import MathOptions


def assay(*arguments, **options):
    command = [sys.executable, "-m", "assay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


class TestOnePair:
    @pytest.mark.parametrize(
        ("gold", "answer", "code", "word"),
        [
            ("\\frac12", "0.5", 0, "equal"),
            ("4", "x = 4", 0, "equal"),
            ("4", "5", 1, "different"),
            ("-3", "-3", 0, "equal"),
            ("-x", "-x", 0, "equal"),
            ("-x", "x", 1, "different"),
            ("4", "", 1, "no answer"),
            ("", "4", 2, "gold unparsable"),
        ],
    )
    def test_the_exit_code_and_the_first_word_give_the_verdict(
        self, capsys, gold, answer, code, word
    ):
        """0 for equal, 1 for different, 2 for undecided; answers may begin with a minus."""
        assert main(["math", gold, answer]) == code
        assert capsys.readouterr().out.startswith(f"{word} (")

    def test_the_line_contains_status_tier_and_reason(self, capsys):
        main(["math", "1/2", "1/3"])
        status, _, reason = capsys.readouterr().out.strip().partition(": ")
        assert status.startswith("different (")
        assert reason

    def test_json_contains_the_pair_and_the_verdict(self, capsys):
        """One object."""
        assert main(["math", "1/2", "0.5", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["gold"], said["answer"], said["equal"]) == ("1/2", "0.5", True)
        assert (said["status"], said["tier"]) == ("equal", "normalize")
        assert said["reason"]

    def test_boxes_and_text_after_reasoning_are_read(self, capsys):
        """As in a rubric."""
        assert main(["math", "4", "<think>5?</think> It is \\boxed{4}."]) == 0
        assert main(["math", "4", "<think>\\boxed{4}"]) == 1

    def test_strict_requires_a_box(self, capsys):
        """A bare answer is not accepted."""
        assert main(["math", "4", "4", "--strict"]) == 1
        assert "no boxed answer" in capsys.readouterr().out
        assert main(["math", "4", "\\boxed{4}", "--strict"]) == 0

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["5", "5 cm"], 0),
            (["5", "5 cm", "--no-units"], 1),
            (["3", "x = 3", "--no-assignments"], 1),
            (["(1, 2)", "(2, 1)"], 1),
            (["(1, 2)", "(2, 1)", "--no-ordered-tuples"], 0),
            (["100", "101"], 1),
            (["100", "101", "--tolerance", "0.02"], 0),
        ],
    )
    def test_every_rule_has_an_option(self, capsys, arguments, code):
        """With the same name."""
        assert main(["math", *arguments]) == code

    def test_every_rule_option_has_a_help_text(self, capsys):
        """Boolean rules have an option for yes and one for no."""
        assert main(["math", "--help"]) == 0
        out = capsys.readouterr().out
        for rule in fields(MathOptions):
            flag = rule.name.replace("_", "-")
            assert f"--{flag}" in out
            is_bool = rule.default is None or isinstance(rule.default, bool)
            assert is_bool == (f"--no-{flag}" in out)
            on_or_off = "yes" if rule.default else "no"
            usual = on_or_off if is_bool else f"{rule.default:g}"
            told = re.search(r"\(default:\s+(\w+)\)", out.partition(f"--{flag}")[2])
            assert told is not None
            assert told[1] == usual


class TestBadUsage:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["math"], "give GOLD and ANSWER, or --file"),
            (["math", "4"], "give GOLD and ANSWER, or --file"),
            (["math", "4", "4", "--file", "-"], "not both"),
            (["math", "4", "4", "--timeout", "0"], "seconds above 0"),
            (["math", "4", "4", "--timeout", "-1"], "number of seconds above 0"),
            (["math", "4", "4", "--timeout", "soon"], "number of seconds above 0"),
            (["math", "4", "4", "--rounding", "2.5"], "whole number"),
            (["math", "4", "4", "--tolerance", "nan"], "number of 0 or more"),
            (["math", "4", "4", "--units", "maybe"], "Got unexpected extra argument (maybe)"),
            (["judge"], "No such command 'judge'"),
        ],
    )
    def test_usage_errors_give_exit_code_2(self, capsys, arguments, words):
        """No verdict is printed."""
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert words in said.err
        assert said.out == ""

    def test_without_arguments_the_help_is_printed(self, capsys):
        """With the exit code for undecided."""
        assert main([]) == 2
        assert "math" in capsys.readouterr().err


class TestFiles:
    @pytest.fixture
    def pairs(self, tmp_path):
        def write(*lines):
            path = tmp_path / "pairs.jsonl"
            texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
            path.write_text("\n".join(texts) + "\n", encoding="utf-8")
            return str(path)

        return write

    def test_every_line_is_printed_with_its_verdict(self, pairs, capsys):
        """In order, with its other fields; the exit code is that of the worst verdict."""
        path = pairs(
            {"id": 7, "gold": "1/2", "answer": "0.5"}, "", {"gold": 4, "answer": "\\boxed{5}"}
        )
        assert main(["math", "--file", path]) == 1
        said = capsys.readouterr()
        rows = [json.loads(line) for line in said.out.splitlines()]
        assert [row["equal"] for row in rows] == [True, False]
        assert (rows[0]["id"], rows[1]["gold"]) == (7, 4)
        assert said.err == "2 pairs, 1 different, 1 the same\n"

    def test_exit_code_0_if_all_pairs_are_equal(self, pairs, capsys):
        """Over more than one chunk, too."""
        rows = [{"gold": str(n), "answer": f"{n}.0"} for n in range(700)]
        assert main(["math", "--file", pairs(*rows)]) == 0
        said = capsys.readouterr()
        assert [json.loads(line)["gold"] for line in said.out.splitlines()] == [
            str(n) for n in range(700)
        ]
        assert "700 pairs, 700 the same" in said.err

    def test_an_unreadable_gold_answer_is_undecided(self, pairs, capsys):
        assert main(["math", "--file", pairs({"gold": "", "answer": "4"})]) == 2
        assert "1 undecided" in capsys.readouterr().err

    def test_an_empty_file_does_not_give_exit_code_0(self, pairs, capsys):
        assert main(["math", "--file", pairs("")]) == 2
        assert "no pairs" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ('{"gold": "4"', "not valid JSON"),
            ("[1, 2]", "is not an object"),
            ('{"gold": "4"}', "no column 'answer'"),
            ("\udcff", "not valid UTF-8"),
            ("[" * 100_000, "nested too deep"),
        ],
        ids=["cut off", "a list", "half a pair", "no text", "deep"],
    )
    def test_an_invalid_line_is_reported_after_the_lines_before_it(
        self, tmp_path, capsys, line, words
    ):
        """With file, line number and reason."""
        path = tmp_path / "pairs.jsonl"
        good = '{"gold": "4", "answer": "4"}\n'
        path.write_bytes((good * 4 + line).encode(errors="surrogateescape"))
        assert main(["math", "--file", str(path)]) == 2
        said = capsys.readouterr()
        assert len(said.out.splitlines()) == 4
        assert "failed after 4 pairs" in said.err
        assert f"{path}:5: " in said.err
        assert words in said.err

    def test_a_missing_file_is_named_in_the_error(self, capsys):
        assert main(["math", "--file", "nowhere.jsonl"]) == 2
        assert "nowhere.jsonl" in capsys.readouterr().err

    def test_standard_input_is_a_dash(self, monkeypatch, capsys):
        """For pipes."""
        line = b'{"gold": "4", "answer": "4"}\n'
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line * 3)))
        assert main(["math", "--file", "-"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 3

    def test_a_closed_pipe_is_not_an_error(self, pairs):
        """As with `head`."""
        path = pairs(*[{"gold": "4", "answer": "4"}] * 20_000)
        command = [sys.executable, "-m", "assay", "math", "--file", path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout.readline()
            process.stdout.close()
            said = process.stderr.read().decode()
        assert "Traceback" not in said
        assert "failed after" in said

    @pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
    def test_an_interrupt_prints_how_many_pairs_are_done(self):
        """Finished verdicts are on standard output."""
        command = [sys.executable, "-m", "assay", "math", "--file", "-"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            process.stdin.write(b'{"gold": "4", "answer": "4"}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["equal"]
            process.send_signal(signal.SIGINT)
            said = process.stderr.read().decode()
        assert process.returncode == 130
        assert said == "stopped after 1 pairs, 1 the same\n"


CONSOLE = re.compile(r"^\$ assay (.+)\n((?:(?!\$|```).+\n)*)", re.MULTILINE)
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "score-mathematics.md").read_text(
    encoding="utf-8"
)


class TestTheCommand:
    @pytest.mark.parametrize(("line", "output"), CONSOLE.findall(PAGE))
    def test_the_documentation_shows_the_actual_output(
        self, line, output, capsys, tmp_path, monkeypatch
    ):
        """Every command of docs/how-to/score-mathematics.md."""
        monkeypatch.chdir(tmp_path)
        Path("pairs.jsonl").write_text('{"gold": 4, "answer": "4"}\n', encoding="utf-8")
        arguments = shlex.split(line.partition(" > ")[0])
        assert main(arguments) in (0, 1)
        if " > " not in line:
            assert capsys.readouterr().out == output

    def test_help_and_version_import_no_large_packages(self):
        """Not even pydantic."""
        for argument in ("--help", "--version"):
            code = f"import sys\nfrom assay.cli import main\ntry: main([{argument!r}])\nfinally: print(*sys.modules)"
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
            )
            loaded = {"pydantic", "yaml", "asyncio", "flint", "sympy", "assay.math"}
            assert not loaded & set(done.stdout.split())

    def test_the_command_runs_as_a_module(self):
        """`python -m assay`."""
        done = assay("--version")
        assert (done.returncode, done.stdout[:6]) == (0, "assay ")
        done = assay("math", "4", "4")
        assert (done.returncode, done.stdout[:5]) == (0, "equal")
