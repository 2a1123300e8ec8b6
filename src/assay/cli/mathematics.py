"""Answers compared: one pair, or every line of a file as it comes."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from assay.errors import AssayError
from assay.math import MathOptions, MathVerdict, verify_many
from assay.parsers import MaybeThinkParser, extract_boxed_answer
from assay.tables import rows_of

LARGEST_CHUNK = 256


@dataclass(frozen=True)
class Comparing:
    """What counts as the same, and how long it may take to find out."""

    options: MathOptions
    strict: bool
    timeout: float

    @classmethod
    def by(cls, rules: Mapping[str, Any], *, strict: bool, timeout: float) -> "Comparing":
        """By the rules that are named, and the usual ones."""
        return cls(MathOptions(**rules), strict, timeout)

    def pair(self, gold: str, answer: str, *, as_json: bool) -> Counter[str]:
        """Compare two answers, and print what came out."""
        pair = {"gold": gold, "answer": answer}
        [verdict] = self.verdicts([pair])
        if as_json:
            _print_row(pair, verdict)
        else:
            print(f"{verdict.status.replace('_', ' ')} ({verdict.tier}): {verdict.reason}")
        return Counter([_outcome(verdict)])

    def file(self, path: str) -> Counter[str]:
        """Compare the pairs of a file, and print each with its verdict."""
        tally: Counter[str] = Counter()
        try:
            for chunk in _chunks(rows_of(path, fields=("gold", "answer"))):
                for row, verdict in zip(chunk, self.verdicts(chunk), strict=True):
                    tally[_outcome(verdict)] += 1
                    _print_row(row, verdict)
                sys.stdout.flush()
                if sys.stderr.isatty():
                    print(f"\r{_counted(tally)}", end="", file=sys.stderr, flush=True)
        except BaseException as error:
            what = "stopped" if isinstance(error, KeyboardInterrupt) else "broken off"
            if tally or what == "stopped":
                _say(f"{what} after {_counted(tally)}")
            raise
        _say(_counted(tally) if tally else f"there are no pairs in {path}")
        return tally

    def verdicts(self, pairs: Iterable[Mapping[str, Any]]) -> list[MathVerdict]:
        """One a pair, in order."""
        parser = MaybeThinkParser(partial(extract_boxed_answer, strict=self.strict))
        read = [
            (pair["gold"], parser.parse(answer) if isinstance(answer, str) else answer)
            for pair in pairs
            for answer in [pair["answer"]]
        ]
        verdicts = verify_many(read, options=self.options, timeout=self.timeout)
        if not self.strict:
            return verdicts
        return [_NO_BOX if pair[1] == "" else v for pair, v in zip(read, verdicts, strict=True)]


_NO_BOX = MathVerdict("no_answer", "no boxed answer", "normalize")


def _chunks(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows in lists that start small, so that the first results come at once.

    When the rows end in an error, those before it come first.
    """
    size, chunk = 1, list[dict[str, Any]]()
    try:
        for row in rows:
            chunk.append(row)
            if len(chunk) == size:
                yield chunk
                size, chunk = min(2 * size, LARGEST_CHUNK), []
    except AssayError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _print_row(row: Mapping[str, Any], verdict: MathVerdict) -> None:
    said = {"equal": verdict.equal, "status": verdict.status}
    print(json.dumps({**row, **said, "reason": verdict.reason, "tier": verdict.tier}))


def _outcome(verdict: MathVerdict) -> str:
    return "the same" if verdict.equal else "different" if verdict.decided else "undecided"


def _counted(tally: Counter[str]) -> str:
    listed = "".join(f", {count:,} {outcome}" for outcome, count in sorted(tally.items()))
    return f"{tally.total():,} pairs{listed}"


def _say(line: str) -> None:
    start = "\r" if sys.stderr.isatty() else ""
    print(f"{start}{line}", file=sys.stderr, flush=True)
