"""Compare answers with references: cheap comparisons in this process, all others in worker processes."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

from assay import isolation  # loads its pool only when a comparison needs a worker
from assay.errors import MissingExtraError, import_extra
from assay.math.boxes import find_boxed_answers
from assay.math.normalization import settle, shorten
from assay.math.text_cache import cache_short_texts
from assay.math.verdict import DEFAULT, MathOptions, MathVerdict, OpenQuestion, read_simplification

Pair = tuple[object, object]

# Seconds after which a comparison ends in any case, however busy the machine is.
HARD_TIMEOUT: Final = 120.0
_MAX_KNOWN_VERDICTS: Final = 50_000
_MAX_WAITING: Final = 1024  # questions that are with the workers at one time, by default
_MAX_BUSY_SECONDS: Final = 0.005  # after which other tasks of the event loop get their turn
_MAX_ERROR_LENGTH: Final = 500

# Verdicts of workers that would be the same again, so that a group of rollouts asks only once.
_known_verdicts: dict[tuple[OpenQuestion, MathOptions], MathVerdict] = {}


def verify(
    gold: object, answer: object, *, options: MathOptions | None = None, timeout: float = 5.0
) -> MathVerdict:
    r"""Decide whether the answer equals the gold. `timeout` is in seconds of work.

    >>> verify(r"\frac12", "0.5")
    MathVerdict(status='equal', reason='equal as numbers: 1/2', tier='normalize')
    """
    return verify_many([(gold, answer)], options=options, timeout=timeout)[0]


def verify_many(
    pairs: Iterable[Pair], *, options: MathOptions | None = None, timeout: float = 5.0
) -> list[MathVerdict]:
    """Return a verdict for each pair of a gold and an answer, in their order."""
    rules = options or DEFAULT
    results = [_compare_here(gold, answer, rules) for gold, answer in pairs]
    # All questions go to the workers before the first answer is waited for.
    futures = {
        question: _pool().submit(
            *_get_task(question, rules), timeout=timeout, hard_timeout=HARD_TIMEOUT
        )
        for question in _find_questions(results)
    }
    verdicts: dict[OpenQuestion, MathVerdict] = {}
    for question, future in futures.items():
        verdicts[question] = _read_outcome(question, rules, future.result(), timeout)
    return _fill_in(results, verdicts)


async def verify_async(
    gold: object, answer: object, *, options: MathOptions | None = None, timeout: float = 5.0
) -> MathVerdict:
    """Do what `verify` does without blocking the event loop."""
    return (await verify_many_async([(gold, answer)], options=options, timeout=timeout))[0]


async def verify_many_async(
    pairs: Iterable[Pair],
    *,
    options: MathOptions | None = None,
    timeout: float = 5.0,
    at_once: int | None = None,
) -> list[MathVerdict]:
    """Do what `verify_many` does without blocking the event loop.

    At most `at_once` comparisons are with the workers at one time; 1024 if it is None.
    """
    import asyncio  # late, since numbers are compared without an event loop

    rules = options or DEFAULT
    results: list[MathVerdict | OpenQuestion] = []
    pause_at = time.perf_counter() + _MAX_BUSY_SECONDS
    for gold, answer in pairs:
        results.append(_compare_here(gold, answer, rules))
        if time.perf_counter() > pause_at:
            await asyncio.sleep(0)
            pause_at = time.perf_counter() + _MAX_BUSY_SECONDS

    verdicts: dict[OpenQuestion, MathVerdict] = {}

    async def ask_in_turn(remaining: Iterator[OpenQuestion]) -> None:
        for question in remaining:
            outcome = await _pool().run(
                *_get_task(question, rules), timeout=timeout, hard_timeout=HARD_TIMEOUT
            )
            verdicts[question] = _read_outcome(question, rules, outcome, timeout)

    questions = _find_questions(results)
    remaining = iter(questions)  # shared, so that each question is asked by one of the tasks
    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(len(questions), at_once or _MAX_WAITING)):
            tasks.create_task(ask_in_turn(remaining))
    return _fill_in(results, verdicts)


def _find_questions(results: Sequence[MathVerdict | OpenQuestion]) -> list[OpenQuestion]:
    """Return the questions for the workers, each of them once."""
    questions = [result for result in results if isinstance(result, OpenQuestion)]
    return list(dict.fromkeys(questions))


def _fill_in(
    results: Sequence[MathVerdict | OpenQuestion], verdicts: dict[OpenQuestion, MathVerdict]
) -> list[MathVerdict]:
    """Return the results with the workers' verdicts in place of the questions."""
    complete: list[MathVerdict] = []
    for result in results:
        if isinstance(result, OpenQuestion):
            complete.append(verdicts[result])
        else:
            complete.append(result)
    return complete


# The first two tiers.


def _compare_here(gold: object, answer: object, options: MathOptions) -> MathVerdict | OpenQuestion:
    """Compare two answers if that is cheap; else return the question for a worker.

    The verdict on a question that a worker answered before is returned at once. An exception
    becomes a verdict too, so that it does not end the comparison of other pairs.
    """
    try:
        gold_text = _write(gold)
        answer_text = _write(answer)
        verdict = settle(gold_text, answer_text, options)
        if verdict is not None:
            return verdict
        result = _compare_by_algebra(gold_text, answer_text, options)
    except MissingExtraError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the reading of one answer fails with
        description = shorten(f"{type(error).__name__}: {error}", _MAX_ERROR_LENGTH)
        return MathVerdict("error", f"the comparison failed: {description}", "algebra")
    if isinstance(result, OpenQuestion):
        return _known_verdicts.get((result, options), result)
    return result


def _write(value: object) -> str:
    """Return a value as the text of an answer: a list without brackets, and None as an empty text.

    With brackets, `[1, 2]` would be an interval.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_write, cast("list[object]", value)))
    if value is None:
        return ""
    return str(value)


@cache_short_texts(32768)
def _compare_by_algebra(gold: str, answer: str, options: MathOptions) -> MathVerdict | OpenQuestion:
    """Compare two texts by exact arithmetic; of a text with a box, only what is in the box."""
    if not answer.strip():
        return MathVerdict("no_answer", "there is no answer", "normalize")
    if not gold.strip():
        return MathVerdict("gold_unparsable", "the gold answer is empty", "normalize")
    algebra = import_extra(
        "assay.math.algebra",
        "mathematics beyond plain numbers",
        extra="math",
        package="python-flint",
    )
    boxed_gold = find_boxed_answers(gold) or gold
    boxed_answer = find_boxed_answers(answer)
    if boxed_answer is None:
        boxed_answer = answer
    if (boxed_gold, boxed_answer) != (gold, answer):
        # What is in the boxes may be plain numbers, which need no algebra.
        verdict = settle(boxed_gold, boxed_answer, options)
        if verdict is not None:
            return verdict
    return algebra.decide(boxed_gold, boxed_answer, options)


# The worker processes: exact arithmetic on large expressions, and math-verify for everything else.


def _pool() -> "isolation.Pool":
    """Return the worker processes, which load math-verify when they start."""
    return isolation.shared_pool("assay.math.symbolic")


def _get_task(
    question: OpenQuestion, options: MathOptions
) -> tuple[str, str, str, int | MathOptions]:
    """Return the name of the function that a worker calls, and its arguments."""
    if _is_large(question):
        return "assay.math.algebra:decide_in_worker", question.gold, question.answer, options
    return "assay.math.symbolic:compare", question.gold, question.answer, options.rounding


def _is_large(question: OpenQuestion) -> bool:
    return question.gold_is_large or question.answer_is_large


def _read_outcome(
    question: OpenQuestion, options: MathOptions, outcome: "isolation.Outcome", timeout: float
) -> MathVerdict:
    """Return the verdict of a worker. It is kept unless the worker failed."""
    if _is_large(question):
        verdict = _read_large_outcome(question, outcome, timeout)
    else:
        verdict = _read_symbolic_outcome(question, outcome, timeout)
    if outcome.ok:
        if len(_known_verdicts) >= _MAX_KNOWN_VERDICTS:
            _known_verdicts.clear()
        _known_verdicts[question, options] = verdict
    return verdict


def _read_large_outcome(
    question: OpenQuestion, outcome: "isolation.Outcome", timeout: float
) -> MathVerdict:
    """Return the worker's verdict on a pair of which one side is large.

    If the worker failed, the answer is too large to compare, or the gold if only that is large.
    """
    if outcome.ok:
        return MathVerdict(*outcome.value)
    if outcome.kind == "lost":
        return MathVerdict("error", f"the worker failed: {outcome.message}", "algebra")
    if not question.answer_is_large:
        reason = f"the gold is too large to compare: {outcome.message}"
        return MathVerdict("gold_unparsable", reason, "algebra")
    if outcome.kind == "timeout":
        reason = f"undecided after {timeout:g} seconds of work"
        return MathVerdict("out_of_time", reason, "algebra")
    reason = f"the answer is too large to compare: {outcome.message}"
    return MathVerdict("too_large", reason, "algebra")


def _read_symbolic_outcome(
    question: OpenQuestion, outcome: "isolation.Outcome", timeout: float
) -> MathVerdict:
    """Return the verdict of math-verify, or what its failure says about the answer."""
    if outcome.ok:
        return read_simplification(question, outcome.value)
    if outcome.kind == "timeout":
        reason = f"undecided after {timeout:g} seconds of work"
        return MathVerdict("out_of_time", reason, "symbolic")
    if outcome.kind == "memory":
        reason = "the comparison needs more memory than a worker may take"
        return MathVerdict("too_large", reason, "symbolic")
    not_installed = outcome.message.startswith(("ImportError", "ModuleNotFoundError"))
    if outcome.kind == "raised" and not not_installed:
        reason = f"math-verify failed: {outcome.message}"
        return MathVerdict("answer_unparsable", reason, "symbolic")
    return MathVerdict("error", f"the worker failed: {outcome.message}", "symbolic")
