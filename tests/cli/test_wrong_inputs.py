"""What people type wrong, as one table: the input, and the sentence that says what to do about it."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.testing import ModelServer

ROWS = [{"prompt": "Where?", "completion": "Paris"}, {"prompt": "Who?", "completion": "Ada"}]

# A rubric file, and a part of the message about it.
RUBRICS = {
    "a colon in a text": (
        "- requirement: Names the city: Paris\n",
        "rubric.yaml:1: Failed to parse YAML: a text contains a colon: put it in quotes, "
        'requirement: "Names the city: Paris"',
    ),
    "a colon in a check": (
        "- check: contains: Paris\n",
        "there is a second colon: put the check in braces, check: {contains: Paris}",
    ),
    "a tab": (
        "- requirement: Names Paris\n\tweight: 2\n",
        "rubric.yaml:2: Failed to parse YAML: the line is indented with a tab: use spaces",
    ),
    "a decimal comma": (
        "- check: {contains: Paris}\n  weight: 1,5\n",
        "rubric.yaml:2: criterion 1: weight is '1,5': write 1.5",
    ),
    "a typographic minus": (
        "- check: {contains: Paris}\n  weight: −2\n",
        "criterion 1: weight is '−2': write -2",
    ),
    "curly quotes around a name": (
        "- check: {contains: Paris}\n  name: “right”\n",
        'criterion 1: name is “right”, in curly quotes: use straight ones, "right"',
    ),
    "curly quotes around a check": (
        "- check: {contains: „Paris“}\n",
        'criterion 1: check is „Paris“, in curly quotes: use straight ones, "Paris"',
    ),
    "veto": (
        "- requirement: Is safe\n  veto: true\n",
        "unknown field 'veto': for a criterion that decides alone write required: true",
    ),
    "a misspelt field": (
        "- check: {contains: Paris}\n  wieght: 2\n",
        "criterion 1: unknown field 'wieght': did you mean 'weight'?",
    ),
    "criterias": (
        "criterias:\n  - check: {contains: Paris}\n",
        "rubric.yaml:1: unknown field 'criterias': did you mean 'criteria'?",
    ),
    "no criteria": (
        "name: good\n",
        "there are no criteria: list them under `criteria`",
    ),
    "texts in place of criteria": (
        "- Names Paris\n",
        "item 1: it must be a mapping, not the text 'Names Paris': write requirement: 'Names Paris'",
    ),
    "two criteria of one name": (
        "- {name: a, check: {contains: Paris}}\n- {name: a, check: {contains: Rome}}\n",
        "criterion 2: name is 'a', as for criterion 1: give each its own name",
    ),
    "a misspelt check": (
        "- check: {contians: Paris}\n",
        "there is no built-in check 'contians': did you mean 'contains'?",
    ),
    "a text that begins with quotes": (
        '- requirement: "Paris" is named\n',
        'a text that begins with " needs quotes around all of it, requirement: \'"Paris" is named\'',
    ),
    "a text that begins with a placeholder": (
        "- requirement: {city} is named\n",
        'needs quotes around all of it, requirement: "{city} is named"',
    ),
    "a text that begins with an at sign": (
        "- requirement: @mentions the author\n",
        'needs quotes around all of it, requirement: "@mentions the author"',
    ),
    "a text that begins with an asterisk": (
        "- requirement: *very* polite\n",
        'needs quotes around all of it, requirement: "*very* polite"',
    ),
    "an apostrophe in quotes": (
        "- requirement: 'It's polite'\n",
        'use the other kind around it, requirement: "It\'s polite"',
    ),
    "a quotation mark that is not closed": (
        '- requirement: "Names Paris\n  weight: 2\n- requirement: Names Ada\n',
        "rubric.yaml:1: Failed to parse YAML: a quotation mark is not closed",
    ),
    "a bracket that is not closed": (
        "- check: {contains: Paris\n- check: {contains: Ada}\n",
        "a comma is missing, or a bracket is not closed",
    ),
    "a field indented too far": (
        "- requirement: Names Paris\n   weight: 2\n",
        "rubric.yaml:2: Failed to parse YAML: the line is not indented like those above it",
    ),
    "a field not indented far enough": (
        "- requirement: Names Paris\n weight: 2\n",
        "rubric.yaml:2: Failed to parse YAML: the line is not indented like those above it",
    ),
    "a dash indented too far": (
        "criteria:\n  - check: {contains: Paris}\n - check: {contains: Ada}\n",
        "put its dash below the one before",
    ),
    "no space after a dash": (
        "-requirement: Names Paris\n",
        "put a space between the dash and 'requirement': - requirement:",
    ),
    "no space after a colon": (
        "- requirement:Names Paris\n",
        "put a space after the colon: requirement: Names Paris",
    ),
    "no dash": (
        "requirement: Names Paris\nweight: 2\n",
        "begin it with a dash, - requirement:",
    ),
    "a decimal comma in braces": (
        "- {check: {contains: Paris}, weight: 1,5}\n",
        "a comma is inside the value of 'weight': write weight: 1.5",
    ),
    "a comma in braces": (
        "- {requirement: Names Paris, the city, weight: 2}\n",
        'put it in quotes, requirement: "Names Paris, the city"',
    ),
    "a check as a call": (
        '- check: contains("Paris")\n',
        'write it in braces, {contains: "Paris"}',
    ),
    "the keys of another tool": (
        "- {type: contains, value: Paris}\n",
        "unknown field 'type': write check: and a built-in check such as {contains: Paris}",
    ),
    "a judge in the rubric": (
        "judge: openai/gpt-5-mini\ncriteria:\n- requirement: Names Paris\n",
        "the judge is named where the rubric is used: --judge",
    ),
    "an empty file": ("", "No criteria found: it is empty"),
}

# A command, with the files of `folder` below, and a part of the message about it.
COMMANDS = {
    "a rubric of a similar name": (
        "score rows.jsonl -r ruric.yaml",
        "File not found: ruric.yaml: did you mean 'rubric.yaml'?",
    ),
    "a rubric with another ending": (
        "score rows.jsonl -r rubric.yml",
        "File not found: rubric.yml: did you mean 'rubric.yaml'?",
    ),
    "data of a similar name": (
        "score row.jsonl -r rubric.yaml",
        "File not found: row.jsonl: did you mean 'rows.jsonl'?",
    ),
    "a run of a similar name": (
        "show rum",
        "there is no run rum: name the folder of a run: did you mean 'run'?",
    ),
    "a run of a similar name, to view": ("view rum", "there is no run rum: did you mean 'run'?"),
    "a run of a similar name, to compare": (
        "compare rum run",
        "there is no folder rum: did you mean 'run'?",
    ),
    "swapped arguments": (
        "score rubric.yaml -r rows.jsonl",
        "rows.jsonl is a table, not a rubric: pass the rubric with -r",
    ),
    "a rubric in place of data": (
        "score rubric.yaml",
        "rubric.yaml: files that end in '.yaml' are not tables: give a table "
        "(.jsonl, .ndjson, .json, .csv, .tsv, .xlsx, .parquet); name a rubric with -r",
    ),
    "a file in place of a run": (
        "agree rows.jsonl run",
        "rows.jsonl is a file: name the folder of a run",
    ),
    "the completion in another column": (
        "score other.jsonl -r rubric.yaml",
        "other.jsonl has no column 'completion' (columns: prompt, text): give --map completion=text",
    ),
    "a reversed --map": (
        "score other.jsonl -r rubric.yaml --map text=completion",
        "other.jsonl:1: there is no column 'completion' to rename, but 'text' is there: "
        "the new name comes first, completion=text",
    ),
    "a reversed --map of the completion": (
        "score rows.jsonl -r rubric.yaml --map output=completion",
        "the new name comes first, so leave it out, or write completion=output",
    ),
    "a decimal comma": (
        "score rows.jsonl -r rubric.yaml --budget 1,5",
        "'1,5': write 1.5 (see assay score --help)",
    ),
    "an option twice": (
        "score rows.jsonl -r rubric.yaml --limit 1 --limit 2",
        "--limit was given 2 times: give it once",
    ),
    "a misspelt option": (
        "score rows.jsonl --rubrik rubric.yaml",
        "No such option '--rubrik'. Did you mean '--rubric'?",
    ),
    "a misspelt command": ("scores rows.jsonl", "'score'?) (see assay --help)"),
    "no rubric": ("score rows.jsonl", "--rubric is missing: give -r/--rubric RUBRIC"),
    "no judge": (
        "score rows.jsonl -r judged.yaml",
        "no judge was named: name one with --judge openai/gpt-5-mini",
    ),
    "data without an ending that do not exist": (
        "score rows -r rubric.yaml",
        "File not found: rows: did you mean 'rows.jsonl'?",
    ),
    "rows of questions": (
        "score questions.jsonl -r rubric.yaml",
        "questions.jsonl has no column 'completion' (columns: question, answer), which 'contains' "
        "needs: give --map completion=COLUMN",
    ),
    "messages without an answer": (
        "score asked.jsonl -r rubric.yaml",
        "the last of the `messages` of a row has to have the role 'assistant'",
    ),
    "a misspelt column": (
        "score rows.jsonl -r rubric.yaml --map completion=promt",
        "there is no column 'promt' (columns: prompt, completion): did you mean 'prompt'?",
    ),
    "a typographic dash": (
        "score rows.jsonl -r rubric.yaml –limit 1",
        "'–limit' begins with a typographic dash: write --limit",
    ),
    "an option cut short": ("score rows.jsonl --rub rubric.yaml", "Did you mean '--rubric'?"),
    "a judge without a provider": (
        "score rows.jsonl -r judged.yaml --judge gpt-5-mini",
        "'gpt-5-mini' does not name a model: did you mean 'openai/gpt-5-mini'?",
    ),
    "a judge without http": (
        "score rows.jsonl -r judged.yaml --judge localhost:8000/v1",
        "give the URL of a server with http://, as in 'http://localhost:8000/v1#name'",
    ),
    "a file that is not a run": (
        "score rows.jsonl -r rubric.yaml --only-failed",
        "rows.jsonl is not a run: name its folder",
    ),
    "a folder to list that does not exist": ("list rum", "there is no run rum: did you mean 'run'"),
    "a port that is not a number": (
        "view run --port http",
        "'http' is not a port: give a number from 0 to 65535",
    ),
    "help on a misspelt command": ("help scor", "did you mean 'score'?"),
    "JSON with single quotes": (
        "score single.jsonl -r rubric.yaml",
        "single.jsonl:1: not valid JSON: Expecting property name enclosed in double quotes at "
        "column 2: put names in double quotes",
    ),
    "a comma between lines of JSON": (
        "score comma.jsonl -r rubric.yaml",
        "write one object per line, without a comma after it",
    ),
    "a cell whose quotes are not closed": (
        "score open.csv -r rubric.yaml",
        'open.csv:2: a quotation mark is not closed: write a quotation mark in a cell as ""',
    ),
    "a placeholder without a column": (
        "score rows.jsonl -r placeholder.yaml -f csv",
        "criterion 'contains' cannot be scored, because the rows of rows.jsonl have no column 'order' "
        "(columns: prompt)",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows, rubrics and a run."""
    monkeypatch.chdir(tmp_path)
    for name, rows in (
        ("rows.jsonl", ROWS),
        ("other.jsonl", [{"prompt": "Where?", "text": "Paris"}]),
        ("questions.jsonl", [{"question": "Where?", "answer": "Paris"}]),
        ("asked.jsonl", [{"messages": [{"role": "user", "content": "Where?"}]}]),
    ):
        lines = [json.dumps(row) for row in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "single.jsonl").write_text("{'completion': 'Paris'}\n")
    (tmp_path / "comma.jsonl").write_text('{"completion": "Paris"},\n{"completion": "Rome"}\n')
    (tmp_path / "open.csv").write_text('prompt,completion\n"Where?,Paris\n')
    (tmp_path / "rubric.yaml").write_text("- check: {contains: Paris}\n")
    (tmp_path / "judged.yaml").write_text("- requirement: Names Paris\n")
    (tmp_path / "placeholder.yaml").write_text('- check: {contains: "{order}"}\n')
    assert main(["score", "rows.jsonl", "-r", "rubric.yaml", "-o", "run", "-q"]) == 0
    return tmp_path


@pytest.mark.parametrize("name", RUBRICS)
def test_a_wrong_rubric(name: str, folder: Path, capsys: Any) -> None:
    text, sentence = RUBRICS[name]
    (folder / "rubric.yaml").write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert main(["score", "rows.jsonl", "-r", "rubric.yaml"]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command(name: str, folder: Path, capsys: Any) -> None:
    command, sentence = COMMANDS[name]
    capsys.readouterr()
    assert main(shlex.split(command)) in (1, 2)
    output = capsys.readouterr()
    assert sentence in output.out + output.err
    assert "Traceback" not in output.err


def test_an_argument_of_a_check_that_no_row_has(folder: Path, capsys: Any) -> None:
    """In the words of tables, not of the library."""
    (folder / "ours.py").write_text(
        "def has(completion, order):\n    return 1.0\n\n\nchecks = [has]\n"
    )
    capsys.readouterr()
    assert main(["score", "rows.jsonl", "-r", "ours:checks"]) == 1
    output = capsys.readouterr().out
    assert "has no column 'order' (columns: completion, prompt): add the column" in output
    assert "class_object" not in output


@pytest.mark.parametrize(
    "rubric",
    [
        "- requirement: Names {ordr}\n- requirement: Is polite\n",
        "- {requirement: Names it, reference: ordr}\n- requirement: Is polite\n",
        "- requirement: Is polite\n- {name: inner, rubric: [{requirement: 'Names {ordr}'}]}\n",
    ],
)
def test_a_column_that_no_row_has_is_refused_before_a_judge_is_asked(
    rubric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rubric.yaml").write_text(rubric)
    Path("rows.jsonl").write_text('{"completion": "a", "question": "q", "order": "A-1"}\n')
    with ModelServer("MET") as server:
        judge = ["--judge", str(server.model)]
        assert main(["score", "rows.jsonl", "-r", "rubric.yaml", *judge]) == 2
        assert "rows.jsonl have no column 'ordr'" in capsys.readouterr().err
        assert (
            main(["eval", "rows.jsonl", "-m", str(server.model), "-r", "rubric.yaml", *judge]) == 2
        )
        assert "did you mean 'order'?" in capsys.readouterr().err
        assert server.requests == []


def test_a_column_that_some_rows_have_is_an_error_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rubric.yaml").write_text("- check: {contains: '{order}'}\n")
    Path("rows.jsonl").write_text('{"completion": "a"}\n{"completion": "A-1", "order": "A-1"}\n')
    assert main(["score", "rows.jsonl", "-r", "rubric.yaml"]) == 1
    output = capsys.readouterr().out
    assert "ColumnError: the row has no column 'order'" in output
    assert "2 rollouts, 1 unscored" in output
