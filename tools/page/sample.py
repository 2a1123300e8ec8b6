"""Two sample runs for the pictures of the run page: 96 examples, four rollouts each, before and after a change.

`python tools/page/sample.py FOLDER` writes them to FOLDER/before and FOLDER/after, for `assay view` to show.
"""

import asyncio
import random
import sys
from dataclasses import replace
from pathlib import Path

from assay import Autograder, Criterion, CriterionReport, Rubric, Score
from assay.runs import Journal, Row, RunAbout, Spending, score_rows

JUDGES = ("judge-a", "judge-b", "judge-c")


def right_answer(completion, answer):
    said = completion[-1]["content"] if isinstance(completion, list) else completion
    return f"<answer>{answer}</answer>" in said


CRITERIA = [
    Criterion(check=right_answer, name="right_answer", weight=5, tags=("facts",)),
    Criterion(
        name="shows_working",
        requirement="Shows each step that leads to the result",
        weight=3,
        tags=("reasoning",),
    ),
    Criterion(
        name="checks_itself",
        requirement="Checks the result by a second way",
        weight=2,
        tags=("reasoning",),
    ),
    Criterion(
        name="cites_a_source",
        requirement="Names where a fact comes from",
        weight=2,
        tags=("facts",),
        allow_na=True,
    ),
    Criterion(
        name="makes_things_up",
        requirement="States something that is not in the material",
        weight=-4,
        tags=("facts",),
    ),
    Criterion(
        name="clarity",
        requirement="How clear is it to a reader of fifteen?",
        weight=2,
        choices=("unclear", "fair", "clear"),
        tags=("style",),
    ),
    Criterion(name="polite", requirement="Is polite to the reader", weight=0, tags=("style",)),
]


class Panel(Autograder):
    """Three judges whose moods are drawn by lot: enough to look at, and always the same."""

    def __init__(self, luck: float) -> None:
        super().__init__()
        self.luck = luck

    @property
    def title(self) -> str:
        return ", ".join(JUDGES)

    async def judge(self, to_grade, rubric, query=None):
        return [self.said(criterion, to_grade) for criterion in rubric]

    def said(self, criterion: Criterion, text: str) -> Score:
        draw = random.Random(f"{criterion.name} {text}")
        if draw.random() < 0.012:
            return Score.failed(draw.choice(ERRORS))
        if criterion.allow_na and "Source" not in text and draw.random() < 0.7:
            return Score.not_applicable("Nothing in the answer rests on a source.")
        likely = self.luck + (0.25 if criterion.name == "polite" else 0)
        likely = 1 - likely - 0.15 if criterion.weight < 0 else likely
        votes = [self.vote(criterion, text, judge, likely, draw) for judge in JUDGES]
        values = sorted(vote.value or 0.0 for vote in votes)
        verdict = criterion.choices[round(values[1] * (len(criterion.choices) - 1))]
        reason = next(vote.reason for vote in votes if vote.verdict == verdict)
        apart = sum(abs(a - b) for a in values for b in values) / 6
        return Score(values[1], reason, verdict, lines=votes, disagreement=apart)

    def vote(self, criterion, text, judge, likely, draw) -> CriterionReport:
        top = len(criterion.choices) - 1
        place = sum(draw.random() < likely for _ in range(top))
        return CriterionReport(
            name=judge,
            weight=criterion.weight,
            requirement=criterion.requirement,
            value=place / top,
            verdict=criterion.choices[place],
            reason=reason_for(criterion.name, place == top, text, draw),
        )


ERRORS = (
    "RateLimitError: 429 too many requests, retried 5 times over 31 s",
    "TimeoutError: the judge did not answer within 60 s",
)


def reason_for(name: str, is_top: bool, text: str, draw: random.Random) -> str:
    lines = [
        line.strip()
        for line in text.split("\n")
        if len(line.strip()) > 15 and not line.startswith(("|", "```", "$", "    "))
    ]
    quote = draw.choice(lines)[:90] if lines else ""
    if draw.random() < 0.06:
        quote = "as is well known among experts"
    good, poor = REASONS[name]
    return f'{good if is_top else poor} It says "{quote}".'


REASONS = {
    "shows_working": (
        "Every step is on the page.",
        "The result comes without the steps that lead to it.",
    ),
    "checks_itself": ("The result is tried a second time.", "Nothing is checked."),
    "cites_a_source": ("The source is named.", "A fact is given and nobody is named for it."),
    "makes_things_up": (
        "This is nowhere in the material.",
        "All of it can be found in the material.",
    ),
    "clarity": ("Short sentences, and one thought in each.", "Too much is left to the reader."),
    "polite": ("The tone is friendly.", "The tone is curt."),
}


def math_row(number: int, sample: int, right: bool) -> dict:
    b, c = 2 * (number % 7 + 2), number % 5 + 1
    root = (b // 2) ** 2 - c
    answer = f"x = -{b // 2} \\pm \\sqrt{{{root}}}"
    given = answer if right else f"x = {b // 2} \\pm \\sqrt{{{root}}}"
    told = (
        f"<think>Half of {b} is {b // 2}. Complete the square.</think>\n\nWe solve $x^2 + {b}x + {c} = 0$ by **completing the square**.\n\n"
        f"1. Move the constant: $x^2 + {b}x = -{c}$.\n2. Add $\\left(\\frac{{{b}}}{{2}}\\right)^2 = {(b // 2) ** 2}$ on both sides.\n"
        f"3. Take the root of both sides.\n\n\\[\n(x + {b // 2})^2 = {root} \\quad\\Longrightarrow\\quad {given}\n\\]\n\n"
    )
    check = (
        f"To check, the sum of both roots should be $-{b}$, which it is.\n\n" if sample % 2 else ""
    )
    asked = f"Solve $x^2 + {b}x + {c} = 0$. Give the exact roots."
    return made("math", number, asked, f"{told}{check}<answer>{given}</answer>", answer)


def code_row(number: int, sample: int, right: bool) -> dict:
    name = ("median", "mode", "spread", "running_mean")[number % 4]
    body = (
        "    ordered = sorted(values)\n    middle = len(ordered) // 2\n    return ordered[middle]"
        if right
        else "    return values[len(values) // 2]"
    )
    told = (
        f"Here is a function that gives the `{name}` of a list:\n\n```python\ndef {name}(values):\n{body}\n```\n\n"
        f"| values | result |\n|:--|--:|\n| `[3, 1, 2]` | {2 if right else 1} |\n| `[5]` | 5 |\n\n"
        f"It needs a list with at least one value. Happy to help with the tests as well!\n\n<answer>{name}</answer>"
    )
    return made(
        "code",
        number,
        f"Write `{name}(values)` in Python, and show it on two examples.",
        told,
        name if right else f"{name}_sorted",
    )


def facts_row(number: int, sample: int, right: bool) -> dict:
    place, height = (("Zugspitze", 2962), ("Ben Nevis", 1345), ("Rysy", 2501), ("Triglav", 2864))[
        number % 4
    ]
    said = height if right else height + 38
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "lookup", "arguments": f'{{"page": "{place}", "fields": ["height"]}}'},
    }
    told = f"The top of **{place}** is {said} metres above the sea.\n\n> Source: the page on {place}, read just now.\n\n<answer>{said}</answer>"
    row = made("facts", number, f"How high is {place}, in metres? Look it up.", told, str(height))
    row["completion"] = [
        {"role": "assistant", "content": "I look that up.", "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": f"call_{number}",
            "content": f'{{"page": "{place}", "height": {height}, "unit": "m"}}',
        },
        *row["completion"],
    ]
    return row


def made(task: str, number: int, asked: str, told: str, answer: str) -> dict:
    system = {
        "role": "system",
        "content": "You are a patient tutor. End with the result in answer tags.",
    }
    prompt = [system, {"role": "user", "content": asked}]
    completion = [{"role": "assistant", "content": told}]
    return {
        "example_id": f"{task}-{number:03d}",
        "prompt": prompt,
        "completion": completion,
        "answer": answer,
        "task": task,
        "info": {"level": number % 3 + 1},
    }


def rows(luck: float) -> list[dict]:
    kinds = (math_row, code_row, facts_row)
    draw = random.Random(7)
    found = []
    for number in range(96):
        hard = draw.random() * 0.5
        for sample in range(4):
            found.append(kinds[number % 3](number, sample, draw.random() < luck + 0.25 - hard))
    return found


async def write(folder: Path, luck: float) -> None:
    """Score the rows, and save them with what they would have taken."""
    rubric = Rubric(CRITERIA, name="patient tutor", judge=Panel(luck))
    about = RunAbout.of(
        "evaluate",
        rubric=rubric,
        judge=rubric.grader,
        model="acme/tutor-8b",
        data={"rows": 384},
    )
    taken: list[Row] = []
    await score_rows(rubric, rows(luck), on_row=taken.append)
    draw = random.Random(11)
    with Journal.open(folder, about) as journal:
        for number, row in enumerate(taken):
            tokens = draw.randint(180, 2400)
            spent = Spending(
                calls=19,
                hits=draw.choice((0, 0, 6)),
                prompt=9 * tokens,
                completion=tokens,
                cost=tokens * 2.1e-6 + 9 * tokens * 3e-7,
            )
            timing = {
                "generation": draw.lognormvariate(1.1, 0.6),
                "scoring": draw.lognormvariate(0.4, 0.5),
            }
            if number % 97 == 41:
                row = Row(
                    row.example,
                    row.sample,
                    {**row.fields, "completion": []},
                    error="APIConnectionError: the endpoint closed the connection",
                )
            journal.write(replace(row, spent=spent, timing=timing, model="acme/tutor-8b-2026-01"))
        journal.finish()


RUNS = {"before": 0.55, "after": 0.68}
"""Each run by its name, with the luck of its answers."""

if __name__ == "__main__":
    where = Path(sys.argv[1])
    for name, luck in RUNS.items():
        asyncio.run(write(where / name, luck))
