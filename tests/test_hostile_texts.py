"""Whatever a model writes, every check and every parser gives a finite number or an error line."""

import json
import math
import random

import pytest

from assay import MaybeThinkParser, Parser, Rollout, Rubric, ThinkParser, XMLParser
from assay.checks import (
    BUILTIN,
    Called,
    CodeBlock,
    Contains,
    ExactMatch,
    FinalState,
    JsonSchema,
    JsonValid,
    MathEqual,
    MaxWords,
    MinWords,
    NoRepeatedCalls,
    NumericEqual,
    OneOf,
    RecoversFromErrors,
    Refusal,
    Regex,
    Similarity,
    Trajectory,
)
from assay.parsers import (
    extract_boxed_answer,
    extract_code,
    extract_hash_answer,
    extract_json,
    extract_last_number,
)

PIECES = [
    *(
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "</response>",
        "<answer",
        "&lt;",
        "<!--",
        "<![CDATA[",
    ),
    *(
        "\\boxed{",
        "\\boxed ",
        "\\frac{1}{",
        "\\sqrt",
        "\\begin{pmatrix}",
        "^",
        "_",
        "{",
        "}",
        "$",
        "\\(",
        "&",
    ),
    *(
        "```",
        "~~~",
        "```json\n",
        "```python\n",
        "####",
        "[",
        "]",
        '"',
        ",",
        ":",
        "\\u",
        "null",
        "NaN",
        "-Infinity",
    ),
    *(
        "0/0",
        "1/0",
        "1e999",
        "-0.0",
        "1,000",
        "\u0663",
        "½",
        "∞",
        "\uff11\uff12",
        "1_000",
        "0x1f",
        "9" * 400,
        "." * 9,
        "-",
    ),
    *(
        "\x00",
        "\ud800",
        "\ufeff",
        "\u202e",
        "\u200b",
        "\x1b[31m",
        "\r\n",
        "\u2028",
        "é",
        "e\u0301",
        "😀",
        "\U0001d7d2",
    ),
    *(
        "I’m sorry, but I can’t",
        "{}",
        "%s",
        "{0}",
        "%(x)s",
        "a" * 60,
        " ",
        "\n",
        "\t",
        "true",
        "None",
        "x = ",
    ),
]
WRITTEN = [
    "",
    " ",
    "\n" * 999,
    "\x00" * 99,
    "\ud800\udc00",
    "a" * 100_000,
    "word " * 50_000,
    "[" * 50_000,
    '{"a":' * 20_000,
    "{" * 20_000 + "}" * 20_000,
    "\\boxed{" * 5_000,
    "\\frac{1}{" * 2_000 + "1" + "}" * 2_000,
    "(" * 5_000 + "1" + ")" * 5_000,
    "9" * 20_000,
    "1e999999999",
    "-1e-999999999",
    "9" * 5_000 + "/" + "3" * 5_000,
    "9^{9^{9^{9}}}",
    "10^{10^{100}}",
    "1" + "/1" * 2_000,
    "1+" * 3_000 + "1",
    "<answer>" * 5_000,
    "</think>" * 5_000,
    "```\n" * 5_000,
    "#### " * 5_000,
    '"' * 9_999,
    "\\" * 9_999,
    '{"n": 1e999}',
    '{"n": NaN}',
    '{"n": -Infinity}',
    "[1" + ",1" * 20_000 + "]",
    '{"a": 1, "a": 2}',
    "\ufeff{}",
    "\u0660\u0661",
    "\u0660/\u0660",
]
ANSWERS = [
    "4",
    "",
    " ",
    None,
    4,
    4.5,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    True,
    [],
    ["4", 4],
    {"a": 1},
    b"4",
    "\ud800",
    "9" * 20_000,
    "1/0",
    "\\frac{1}{",
    "∞",
    "x" * 50_000,
    object(),
    2j,
]
CHECKS = [
    ExactMatch(),
    ExactMatch(ignore_case=True, strip=False),
    OneOf(["4", "null"]),
    NumericEqual(),
    NumericEqual(tolerance=1e-9, relative=1e-9),
    MathEqual(symbolic=False),
    MathEqual(strict=True, symbolic=False),
    Contains("4"),
    Contains(["é", "I"], ignore_case=True, any_of=True),
    Regex(r"\d+"),
    Regex(r"(a+)+\Z", timeout_seconds=0.02),
    MaxWords(3),
    MinWords(3),
    CodeBlock(),
    CodeBlock("python"),
    JsonValid(),
    JsonValid(fenced=False),
    JsonSchema({"type": "object", "required": ["n"]}),
    Similarity(),
    Similarity(to="é", method="token_set_ratio"),
    Refusal(),
    Called("a"),
    Called("a", {"n": 1}, times=0),
    Trajectory(),
    Trajectory(["a"]),
    NoRepeatedCalls(),
    RecoversFromErrors(),
    FinalState("a"),
]
PARSERS = {
    "none": Parser(),
    "text": Parser(extract_fn=extract_boxed_answer),
    "hash": Parser(extract_fn=extract_hash_answer),
    "number": Parser(extract_fn=extract_last_number),
    "json": Parser(extract_fn=extract_json),
    "code": Parser(extract_fn=extract_code),
    "xml": XMLParser(["think", ("code", "answer")]),
    "think": ThinkParser(extract_fn=extract_boxed_answer),
    "maybe think": MaybeThinkParser(extract_fn=extract_boxed_answer),
}


def generated(count, seed=0):
    """Texts made of pieces that mean something to some reader."""
    draw = random.Random(seed)
    for _ in range(count):
        pieces = draw.choices(PIECES, k=draw.randint(1, 12))
        yield "".join(pieces) * draw.choice([1, 1, 1, 3])


def rollouts():
    draw = random.Random(1)
    texts = [*WRITTEN, *generated(400)]
    return [
        Rollout(
            prompt=text[:80], completion=_said(text, number), answer=draw.choice([*ANSWERS, text])
        )
        for number, text in enumerate(texts)
    ]


def _said(text, number):
    """A completion as a text, as a chat, and in other shapes that clients send."""
    return [
        text,
        [{"role": "assistant", "content": text}],
        text,
        [{"role": "assistant", "content": [{"type": "text", "text": text}]}],
        [{"role": "user", "content": text}, {"role": "assistant", "content": None}],
    ][number % 5]


def test_the_table_has_every_built_in_check():
    """A check that is added to the library is added here."""
    assert {type(check) for check in CHECKS} == set(BUILTIN.values())


@pytest.mark.parametrize("parser", ["none", "json", "xml", "maybe think"])
async def test_every_line_is_a_finite_number_or_an_error(parser):
    """No text and no answer makes scoring raise, and none makes a number that is not one."""
    reports = await Rubric(CHECKS, parser=PARSERS[parser]).score(rollouts())
    assert len(reports) == len(WRITTEN) + 400
    for report in reports:
        assert report.score is None or 0.0 <= report.score <= 1.0
        for line in report.report:
            if line.value is None:
                assert line.error, line.name
            else:
                assert line.error is None
                assert 0.0 <= line.value <= 1.0, line.name
        read = not any("is null, not text" in error for error in report.errors.values())
        assert bool(report.metrics) == read  # a check that needs no answer has one
        assert json.loads(json.dumps(report.to_dict()))


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS.keys())
def test_every_parser_reads_every_text(parser):
    """What is not there is not found; the format's score is from 0 to 1."""
    score = parser.get_format_reward_func()
    for rollout in rollouts():
        parser.parse(rollout.completion)
        parser.parse_answer(rollout.completion)
        assert 0.0 <= score(rollout.completion) <= 1.0


async def test_states_are_written_whatever_was_said():
    """A state whose text cannot be scored has errors, and the others of its group have their numbers."""
    rubric = Rubric(CHECKS)
    states = [{"completion": each.completion, "answer": "4"} for each in rollouts()[:60]]
    await rubric.score_group(states)
    for state in states:
        assert all(math.isfinite(value) for value in state["metrics"].values())
        assert state["advantage"] is None or math.isfinite(state["advantage"])
