"""The work every subject is given: the same checks, states, criteria and texts.

Standard library only, because every peer's interpreter imports it. Everything is drawn from a
fixed seed, so two runs and two subjects see the same bytes.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

State = dict[str, Any]
Messages = list[dict[str, str]]

SEED = 20240229
WEIGHTS = (1.0, 0.3, 0.2)
QUERY = "Explain how a heat pump warms a house in winter, for a reader without training."

# Two negative weights, so that graders take their subtracting road as well.
CRITERIA: tuple[dict[str, Any], ...] = (
    {"weight": 10.0, "requirement": "Says that heat is moved rather than made"},
    {"weight": 8.0, "requirement": "Names the refrigerant and what it does"},
    {"weight": 6.0, "requirement": "Explains why compression raises the temperature"},
    {"weight": 6.0, "requirement": "Says where the outdoor heat comes from"},
    {"weight": 5.0, "requirement": "Mentions the expansion valve or an equivalent part"},
    {"weight": 4.0, "requirement": "Gives a figure for the efficiency, with its unit"},
    {"weight": 3.0, "requirement": "Says what happens in very cold weather"},
    {"weight": 2.0, "requirement": "Uses one everyday comparison"},
    {"weight": -4.0, "requirement": "Claims that a heat pump needs no electricity"},
    {"weight": -6.0, "requirement": "Uses a formula without explaining it"},
)

_VOCABULARY = (
    "the a warm cold air water pump house valve pressure outside inside because while then heat "
    "moves carries gives takes slowly quickly through around gas liquid coil fan wall room"
)
_WORDS = _VOCABULARY.split()


def exact(completion: Messages, answer: str) -> float:
    """1.0 when the text between the answer tags is the reference."""
    _, _, rest = completion[-1]["content"].rpartition("<answer>")
    return 1.0 if rest.partition("</answer>")[0].strip() == answer else 0.0


def short(completion: Messages) -> float:
    """1.0 up to two hundred characters."""
    return 1.0 if len(completion[-1]["content"]) <= 200 else 0.0


def shows_work(completion: Messages, **kwargs: Any) -> float:
    """1.0 when an equation stands in the text; takes whatever else a rubric offers."""
    return 1.0 if " = " in completion[-1]["content"] else 0.0


async def exact_later(completion: Messages, answer: str) -> float:
    """`exact`, after giving way to the event loop once."""
    await asyncio.sleep(0)
    return exact(completion, answer)


async def short_later(completion: Messages) -> float:
    """`short`, after giving way to the event loop once."""
    await asyncio.sleep(0)
    return short(completion)


async def shows_work_later(completion: Messages, **kwargs: Any) -> float:
    """`shows_work`, after giving way to the event loop once."""
    await asyncio.sleep(0)
    return shows_work(completion)


CHECKS: dict[str, tuple[Callable[..., Any], ...]] = {
    "sync": (exact, short, shows_work),
    "async": (exact_later, short_later, shows_work_later),
}


def build_states(count: int) -> list[State]:
    """Fresh, unscored states in the plain shape `score_group` takes everywhere."""
    rng = random.Random(SEED)
    return [_state(rng) for _ in range(count)]


def _state(rng: random.Random) -> State:
    left, right = rng.randrange(100), rng.randrange(100)
    said = left + right + (rng.random() < 0.4)
    work = f"{left} + {right} = {said}" if rng.random() < 0.7 else "adding the two"
    filler = " ".join(rng.choices(_WORDS, k=rng.randrange(20, 50)))
    reply = f"{filler} so {work} gives <answer>{said}</answer>"
    return {
        "prompt": [
            {"role": "system", "content": "Answer between answer tags."},
            {"role": "user", "content": f"What is {left} plus {right}?"},
        ],
        "completion": [{"role": "assistant", "content": reply}],
        "answer": str(left + right),
        "task": "addition",
        "info": {},
        "timing": {"generation_ms": 0.0, "scoring_ms": 0.0, "total_ms": 0.0},
        "trajectory": [],
    }


def call_bare(states: Sequence[State]) -> list[tuple[float, float, float]]:
    """The three checks in a plain loop: the least that scoring can cost."""
    results: list[tuple[float, float, float]] = []
    for state in states:
        completion = state["completion"]
        results.append((exact(completion, state["answer"]), short(completion), shows_work(completion)))
    return results


def expected_rewards(states: Sequence[State]) -> list[float]:
    """What every subject must write, so that nobody is fast by doing something else."""
    return [sum(weight * value for weight, value in zip(WEIGHTS, values, strict=True)) for values in call_bare(states)]


def build_responses(count: int) -> list[str]:
    """Texts of about three hundred words, no two alike."""
    rng = random.Random(SEED)
    return [" ".join(rng.choices(_WORDS, k=rng.randrange(280, 320))) for _ in range(count)]


def expected_score() -> float:
    """The normalised score when the judge calls every criterion met."""
    weights = [float(criterion["weight"]) for criterion in CRITERIA]
    return sum(weights) / sum(weight for weight in weights if weight > 0)


def verdict_on(requirement: str) -> str:
    """What a judge by rule says of a criterion, whatever the text: every other one is met.

    One that is not in the list was changed, and is met.
    """
    known = [criterion["requirement"] for criterion in CRITERIA]
    return "UNMET" if requirement in known and known.index(requirement) % 2 else "MET"
