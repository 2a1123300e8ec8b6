"""What models write is read in linear time: a text made of beginnings costs its length, and nothing raises.

Run as a script it reads the texts; the system ends the process when one takes too much of the processor.
"""

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

SIZE = 40_000
"""Characters: some hundredths of a second for what is linear, and many seconds for what is quadratic."""
SECONDS = 1.0
"""Of the processor for one text, however busy the machine is: the dearest takes a fifth of it."""

PIECES = [
    *("\\(", "\\[", "$", "$$", "$1 ", "{", "[", "}", "(", "<", "<answer>", "</answer><answer>"),
    *(
        "<think>",
        "</think>",
        "<tool>",
        "<thinking>",
        "< ",
        "`",
        "```\n",
        "~~~\n",
        "  ```\n",
        '"',
        "'",
        "“",
        "「",
    ),
    *(
        " ",
        "\n",
        " \n",
        "\t",
        "1",
        "9",
        ",",
        "1,",
        "111,",
        "1 ",
        " 1",
        "1.",
        "1/",
        "1 / ",
        "1:",
        "1-",
        "1e",
    ),
    *("\\boxed{", "\\boxed ", "\\boxed{1}", "\\fbox", "\\text{", "\\frac", "\\quad x", "\\left("),
    *(
        "!",
        "%",
        "5%",
        "+",
        "-",
        "^",
        "_",
        "x_",
        "|",
        "&",
        "\\",
        "\\\\ ",
        "\\{",
        "#",
        "####",
        "…",
        "😀",
        "中文",
    ),
    *(
        "\u200b",
        "\u202e",
        "\u0301",
        "\ud800",
        "\0",
        "a",
        "a ",
        "a-",
        "A",
        "x+",
        "sin ",
        "the ",
        "1 km/",
    ),
    *(
        '{"a":',
        "[1,",
        '["',
        '["a",',
        "{'",
        '{"verdict": "',
        '{"explanation": "',
        '"criterion_status" : ',
    ),
    *(
        "final answer ",
        "answer is ",
        "yes ",
        "no.",
        "score: 1 ",
        "score (",
        "1 to ",
        "1 out of ",
        "verdict is of ",
    ),
    *(
        "sk-",
        "-sk-a",
        "-eyJaaaaaaaaa",
        "eyJaaaaaaaa.",
        "Bearer ",
        "://a",
        "?key",
        "&auth",
        "-----BEGIN A",
    ),
    *("not ", "lambda:", "the cat sat ", "\\(a$b{\"[<answer>`'1,2! %"),
]
ENDS = ["", "x1!\n"]


def parsers() -> list[Callable[[str], Any]]:
    """The parsers, and what finds answers in free text."""
    from assay import ToolRubric
    from assay import parsers as p
    from assay.presets.smolagents import list_called_functions
    from assay.presets.tool_rubric import ToolParser

    xml = p.XMLParser(["think", ("tool", "answer")])
    return [
        xml.parse,
        xml.parse_all,
        xml.parse_answer,
        xml.format_score,
        p.ThinkParser().parse,
        p.ThinkParser().format_score,
        p.MaybeThinkParser().parse,
        p.extract_boxed_answer,
        p.extract_code,
        p.extract_hash_answer,
        p.extract_json,
        p.extract_last_number,
        p.strip_non_numeric,
        ToolParser().parse_answer,
        ToolParser().format_score,
        list_called_functions,
        lambda text: ToolRubric().tool_uses(f"<tool>{text}</tool>"),
    ]


def checks() -> list[Any]:
    """Every built-in check but mathematics."""
    from assay import checks as c

    return [
        lambda text: c.ExactMatch(ignore_case=True)(text, answer="4"),
        lambda text: c.NumericEqual()(text, answer="4"),
        c.OneOf(("A",), ignore_case=True),
        c.Contains("zq", ignore_case=True),
        c.MaxWords(3),
        c.MinWords(3),
        c.CodeBlock("python"),
        c.JsonValid(),
        c.JsonSchema({"type": "object", "required": ["a"]}),
        c.Refusal(),
        c.Regex(r"\b\d{4}-\d{2}\b"),
        c.Similarity(to="the cat sat"),
        c.Similarity(to="the cat sat", method="token_set_ratio"),
    ]


def mathematics() -> list[Callable[[str], Any]]:
    """What the caller of a comparison does by itself; the rest is in worker processes with a deadline."""
    from assay.math import MathOptions, verify
    from assay.math.answer_text import find_final_answer
    from assay.math.boxes import find_boxed_answers

    here = MathOptions(symbolic=False)
    short = 4000  # longer ones are told to be too large, and not read
    return [
        find_boxed_answers,
        find_final_answer,
        lambda text: verify("x^2+1", text, options=here),
        lambda text: verify("x^2+1", text[:short], options=here),
        lambda text: verify("x^2+1", f"\\boxed{{{text[:short]}}}", options=here),
        lambda text: verify(text[:short], "x^2+1", options=here),
    ]


def judges() -> list[Callable[[str], Any]]:
    """What reads the replies of judges, and what prepares a text for them."""
    from assay import Criterion, JudgeRubric, Request
    from assay.graders import PerCriterionOutput
    from assay.graders.degenerate import score_degenerate_text
    from assay.graders.judge_input import JudgeInput, write_transcript
    from assay.graders.length import parse_thinking_output, split_thinking
    from assay.graders.prompt_text import write_opening
    from assay.messages import read_parts
    from assay.models.structured import read_structured
    from assay.presets.ratings import Points, read_rating
    from assay.redaction import redact

    request = Request.of("", "", schema=PerCriterionOutput)
    judge = JudgeRubric(judge_prompt="{question} {completion}")
    return [
        lambda text: read_structured(text, request),
        lambda text: read_rating(text, Points(0, 10)),
        read_rating,
        lambda text: score_degenerate_text(text, [Criterion(requirement="Says ok")]),
        lambda text: write_opening(JudgeInput(text, query=text)),
        lambda text: judge.fill_template({"question": text, "completion": text}),
        lambda text: write_transcript(read_parts(text, [{"role": "x", "content": [text, text]}])),
        parse_thinking_output,
        split_thinking,
        redact,
    ]


def trust() -> list[Callable[[str], Any]]:
    """Quotations, and the advice on requirements."""
    from assay import Criterion, Rubric
    from assay.lint import lint
    from assay.trust import evidence_of

    return [
        lambda text: evidence_of(text, text),
        lambda text: evidence_of(f'"{text[:290]}x" and "{text[:250]}…{text[:20]}z"', text),
        lambda text: lint(Rubric([Criterion(requirement=f"x {text}")])),
    ]


FAMILIES = {family.__name__: family for family in (parsers, checks, mathematics, judges, trust)}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_made_of_beginnings_is_read_in_linear_time(family: str) -> None:
    """Forty thousand characters of any kind are read at once; anything quadratic would take far longer."""
    command = [sys.executable, __file__, family]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]


def read_all(family: str) -> None:
    """Read every text by every reader of a family. Refusals are fine; a broken recursion is not."""
    from assay import AssayError

    for number, reader in enumerate(FAMILIES[family]()):
        name = getattr(reader, "__qualname__", type(reader).__name__)
        for piece in PIECES:
            print(f"reader {number} of {family} ({name}), {piece!r}", flush=True)  # noqa: T201
            for end in ENDS:
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                try:
                    reader(piece * (SIZE // len(piece)) + end)
                except (AssayError, ValueError):
                    continue


if __name__ == "__main__":
    read_all(sys.argv[1])
