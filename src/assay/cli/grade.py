"""`assay grade TEXT --rubric FILE`: texts, graded with a rubric file."""

import argparse
import asyncio
import json
import logging
import math
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from assay.cache import VerdictCache, default_place
from assay.cli.judges import grader_of, is_judged, judge_of
from assay.cli.showing import counted, shown_report, shown_spending
from assay.cli.texts import Text, texts_of
from assay.concurrency import side_by_side
from assay.errors import RubricError
from assay.graders import Autograder
from assay.models import Ledger, budget, rehearsal
from assay.report import EvaluationReport
from assay.rubric import Rubric

PASSED, FAILED, UNSCORED = 0, 1, 2


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.epilog = (
        "Exit code: 0 all scored, 1 one below --at-least, 2 one unscored or bad usage. Without "
        "--model, ASSAY_MODEL is asked, and without that a model on this machine."
    )
    parser.add_argument(
        "texts", nargs="+", metavar="TEXT",
        help="a file, - for standard input, a .jsonl file with one text a line (completion, prompt, "
        "answer), or the words themselves",
    )  # fmt: skip
    parser.add_argument("--rubric", required=True, metavar="FILE", help="YAML, JSON or TOML")
    parser.add_argument("--text", action="store_true", help="every TEXT is words, and no file")
    parser.add_argument("--query", default="", help="what was asked, where a row does not say")
    parser.add_argument("--json", action="store_true", help="print each report as a line of JSON")
    parser.add_argument("--at-least", type=_number, metavar="SCORE", help="exit with 1 below this")
    parser.add_argument(
        "--allow-code", action="store_true", help="let the rubric file name functions to run"
    )
    _add_judge(parser.add_argument_group("the judge"))
    parser.set_defaults(run=run, refuse=parser.error)


def _add_judge(group: Any) -> None:
    group.add_argument(
        "--model", metavar="NAME", help="openai/…, anthropic/…, http://…#name, local"
    )
    group.add_argument(
        "--grader", choices=("per-criterion", "one-shot", "holistic"), default="per-criterion",
        help="one call a criterion, one for all, or one number for all (default: per-criterion)",
    )  # fmt: skip
    group.add_argument(
        "--guard", action="store_true", help="ask first whether a text tries to sway its judge"
    )
    group.add_argument(
        "--dry-run", action="store_true",
        help="ask nobody: say how many calls, tokens and dollars it would take",
    )  # fmt: skip
    group.add_argument("--money", type=_dollars, metavar="DOLLARS", help="spend no more than this")
    group.add_argument(
        "--cache", metavar="PLACE",
        help="folder, file or postgresql:// URL of the verdicts (default: ASSAY_CACHE, or yours)",
    )  # fmt: skip
    group.add_argument("--no-cache", action="store_true", help="keep no verdicts, and use none")


def run(options: argparse.Namespace) -> int:
    """Grade what the options name, print it, and give the exit code."""
    rubric = Rubric.from_file(options.rubric, allow_code=options.allow_code)
    texts = texts_of(options.texts, options.query, are_words=options.text)
    if not texts:
        raise RubricError("there is no text in what was given")
    with _judging(rubric, options) as grader, _quiet():
        if options.dry_run:
            return _rehearse(rubric, grader, texts)
        with budget(money=options.money) as spent:
            return _Run(rubric, grader, texts, options, spent).grade()


@contextmanager
def _judging(rubric: Rubric, options: argparse.Namespace) -> Generator[Autograder | None]:
    """The grader that the options name, with its cache; none where code answers everything."""
    if not is_judged(rubric):
        yield None
        return
    cache = None if options.no_cache else VerdictCache(options.cache)
    try:
        model = judge_of(options.model, cache, is_asked=not options.dry_run)
        yield grader_of(options.grader, model, guard=options.guard)
    finally:
        if cache is not None:
            cache.close()


@contextmanager
def _quiet() -> Generator[None]:
    """Errors stand on the lines that are printed, so the log need not say them again."""
    logger = logging.getLogger("assay")
    logger.addFilter(_no)
    try:
        yield
    finally:
        logger.removeFilter(_no)


def _no(record: logging.LogRecord) -> bool:
    return False


def _rehearse(rubric: Rubric, grader: Autograder | None, texts: Sequence[Text]) -> int:
    with rehearsal() as spent:
        rollouts = [text.rollout for text in texts]
        asyncio.run(rubric.score(rollouts, autograder=grader))
    print(f"{counted(len(texts), 'text')} would take at most {shown_spending(spent)}")
    return PASSED


class _Run:
    """Texts being graded: reports are printed in order, each as soon as it can be."""

    def __init__(
        self,
        rubric: Rubric,
        grader: Autograder | None,
        texts: Sequence[Text],
        options: argparse.Namespace,
        spent: Ledger,
    ) -> None:
        self.rubric = rubric
        self.grader = grader
        self.texts = texts
        self.options = options
        self.spent = spent
        self.reports: list[EvaluationReport | None] = [None] * len(texts)
        self.finished = self.printed = 0

    def grade(self) -> int:
        try:
            asyncio.run(self._all())
        except KeyboardInterrupt:
            self._say(f"stopped after {self.printed} of {len(self.texts)} texts{self._kept()}")
            raise
        self._say(self._summary())
        return self._code()

    async def _all(self) -> None:
        self._tell()
        await side_by_side(self._one, range(len(self.texts)))

    async def _one(self, place: int) -> None:
        rollout = self.texts[place].rollout
        [self.reports[place]] = await self.rubric.score([rollout], autograder=self.grader)
        self.finished += 1
        while self.printed < len(self.texts):
            report = self.reports[self.printed]
            if report is None:
                break
            self._print(self.texts[self.printed].name, report)
            self.printed += 1
        self._tell()

    def _print(self, name: str, report: EvaluationReport) -> None:
        if self.options.json:
            judge = None if self.grader is None else self.grader.title
            head = {"name": name, "judge": judge, "scored": report.scored}
            print(json.dumps(head | report.to_dict()))
        else:
            print(shown_report(name, report))
        sys.stdout.flush()

    def _tell(self) -> None:
        """How far it is, where somebody watches."""
        if sys.stderr.isatty():
            done = f"{self.finished:,} of {len(self.texts):,} texts"
            line = f"{done}, {shown_spending(self.spent)}"
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def _summary(self) -> str:
        scores = [r.score for r in self._done() if r.scored and r.score is not None]
        unscored = len(self._done()) - len(scores)
        mean = f", mean score {math.fsum(scores) / len(scores):.3g}" if scores else ""
        missing = f", {unscored:,} unscored" if unscored else ""
        spending = f"; {shown_spending(self.spent)}" if self.grader is not None else ""
        out = self.spent.errors["BudgetExceeded"]
        calls = counted(out, "call")
        poor = f"; the money ran out before {calls} could be made{self._kept()}" if out else ""
        return f"{counted(len(self._done()), 'text')}{mean}{missing}{spending}{poor}"

    def _kept(self) -> str:
        if self.grader is None or self.options.no_cache:
            return ""
        place = self.options.cache or default_place()
        return f"; what was answered is kept in {place}, so the same command goes on from there"

    def _done(self) -> list[EvaluationReport]:
        return [report for report in self.reports if report is not None]

    def _code(self) -> int:
        scores = [report.score if report.scored else None for report in self._done()]
        least = self.options.at_least
        if None in scores:
            return UNSCORED
        low = least is not None and any(score is not None and score < least for score in scores)
        return FAILED if low else PASSED

    def _say(self, line: str) -> None:
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{start}{line}", file=sys.stderr, flush=True)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return number


def _dollars(text: str) -> float:
    number = _number(text.removeprefix("$"))
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no sum of money: give 0 or more")
    return number
