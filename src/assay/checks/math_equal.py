"""Check that an answer is the same mathematics as the one expected."""

import logging
from collections.abc import Sequence
from dataclasses import field, fields
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar

from assay import math
from assay.checks.check import BuiltinCheck, Count, Flag, Number, Places, Seconds
from assay.checks.expected import read_answer
from assay.concurrency import map_with_pauses
from assay.errors import GradingError, MissingExtraError, import_extra
from assay.math import MathOptions, MathVerdict
from assay.messages import visible_text
from assay.parsers import MaybeThinkParser, Parser, extract_boxed_answer
from assay.parsers.named import strictly_boxed
from assay.redaction import get_logger
from assay.report import Score
from assay.types import Messages

logger = get_logger("assay")


class MathEqual(BuiltinCheck):
    r"""The answer that the rubric's parser reads is the same mathematics as `answer`, which has to be readable.

    >>> from assay import Rubric
    >>> Rubric([MathEqual()]).grade_sync(r"So it is \boxed{0.5}.", answer=r"\frac{1}{2}").score
    1.0
    """

    independent: ClassVar[bool] = True

    strict: Flag = False
    r"""Whether only the last `\boxed{…}` after any thought counts, whatever the parser reads."""
    extract: Flag = True  # whether the parser reads the answer; if not, it is the whole text
    timeout_seconds: Seconds = (
        5.0  # seconds of work that one comparison may take; time in a queue does not count
    )
    rounding: Count = 6
    tolerance: Number = 0.0
    units: Flag = True
    ordered_tuples: Flag = True
    percent: Flag = False
    assignments: Flag = True
    rename_variables: Flag = False
    positive: Flag = False
    solved: Flag = True
    symbolic: Flag = True
    # At most so many of its comparisons are in worker processes at once.
    max_workers: Places = field(default=50, compare=False)
    # Running out of time is worth a warning if the limit is this long.
    warn_from: Seconds = field(default=120.0, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _load()

    @cached_property
    def options(self) -> MathOptions:
        names = [field.name for field in fields(MathOptions)]
        return MathOptions(**{name: getattr(self, name) for name in names})

    async def __call__(
        self,
        completions: Sequence[Messages],
        answers: Sequence[Any],
        parser: Parser | None = None,
        with_reasoning: bool = False,
    ) -> list[Score]:
        def read(completion: Messages) -> Any:
            try:
                return self.read(completion, parser, with_reasoning)
            except Exception as error:  # noqa: BLE001 - the parser is the user's
                return Score.failed(error)

        readings = await map_with_pauses(read, completions)
        scores: dict[int, Score] = {}  # by the index of the completion
        pairs: dict[int, tuple[Any, Any]] = {}  # the answers to compare
        for index, reading in enumerate(readings):
            if type(reading) is Score:
                scores[index] = reading
            else:
                pairs[index] = (answers[index], reading)
        verdicts = await math.verify_many_async(
            list(pairs.values()),
            options=self.options,
            timeout=self.timeout_seconds,
            at_once=self.max_workers,
        )
        self._log_late(verdicts)
        scores.update(zip(pairs, await map_with_pauses(_score, verdicts), strict=True))
        return [scores[index] for index in range(len(readings))]

    def _log_late(self, verdicts: Sequence[MathVerdict]) -> None:
        late = sum(verdict.status == "out_of_time" for verdict in verdicts)
        if late:
            logger.log(
                logging.WARNING if self.timeout_seconds >= self.warn_from else logging.DEBUG,
                "%d of %d answers could not be compared within %g s of work",
                late,
                len(verdicts),
                self.timeout_seconds,
            )

    def read(
        self,
        completion: Messages,
        parser: Parser | None = None,
        with_reasoning: bool = False,
    ) -> Any:
        """Return the answer to compare, or a `Score` if there is none."""
        if self.strict:
            return _STRICT.parse_answer(completion) or _NO_BOX
        if not self.extract:
            return visible_text(completion, with_reasoning)
        answer = read_answer(completion, parser, with_reasoning)
        if isinstance(answer, str):
            return extract_boxed_answer(answer) if "\\" in answer else answer
        return "" if answer is None else answer


def _load() -> None:
    """Import what comparing needs, so that the first batch is not delayed. Raise if it is missing."""
    import_extra("assay.math.algebra", "mathematics", extra="math", package="python-flint")
    if find_spec("math_verify") is None:
        raise MissingExtraError("mathematics", package="math-verify", extra="math")


_STRICT = MaybeThinkParser(strictly_boxed)
_NO_BOX = Score(False, "no boxed answer")


def _score(verdict: MathVerdict) -> Score:
    if not verdict.decided:
        return Score.failed(GradingError(verdict.reason))
    return Score(verdict.equal, verdict.reason)
