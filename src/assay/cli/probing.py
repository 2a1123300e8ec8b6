"""A judge being probed: as it is, bare, and guarded."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.cache import default_place
from assay.cli.judges import judging_with
from assay.cli.options import Judging, Rubrics
from assay.cli.probe_page import page_of
from assay.cli.root import BROKEN, FINE, INTERRUPTED, MISSED
from assay.cli.runner import Stopping, Tell, quiet_log, shown_progress, stoppable
from assay.cli.sources import rubric_of, texts_of
from assay.cli.terminal import counted, shown_rehearsal
from assay.concurrency import run_sync
from assay.errors import TrustError
from assay.graders import Autograder, Guarded
from assay.models import budget, dry_run
from assay.probe.attacks import Attack, attacks_of
from assay.probe.probe_report import ProbeReport
from assay.probe.trials import Bare, probe
from assay.rubric import Rubric

BARE, HARDENED, GUARDED = "bare", "hardened", "guarded"


@dataclass(frozen=True)
class Probing:
    """What is tried, what makes a failure of it, and how it is shown."""

    bare: bool
    responses: str | None
    families: tuple[str, ...]
    limit: int | None
    seed: int
    fail_over: float | None
    show: int
    layout: str
    quiet: bool


def probe_judge(rubrics: Rubrics, judging: Judging, probing: Probing) -> int:
    """Probe the judge, print what came of it, and give the exit code."""
    rubric = rubric_of(rubrics)
    plain = replace(judging, guard=False)
    with judging_with(plain, rubric, quiet=probing.quiet) as named, quiet_log():
        grader = named or rubric.autograder
        if grader is None:
            raise TrustError(
                "nothing in this rubric is judged by a model, so there is no judge to attack"
            )
        work = _Work(rubric, _graders(grader, judging, probing), judging, probing)
        return work.rehearse() if judging.dry_run else work.carry_out()


def _graders(grader: Autograder, judging: Judging, probing: Probing) -> dict[str, Autograder]:
    """The judge in every form that is wanted, from the least to the most hardened."""
    forms: dict[str, Autograder] = {BARE: Bare(grader)} if probing.bare else {}
    forms[HARDENED] = grader
    return {**forms, GUARDED: Guarded(grader)} if judging.guard else forms


@dataclass(frozen=True)
class _Work:
    rubric: Rubric
    graders: dict[str, Autograder]
    judging: Judging
    probing: Probing

    def rehearse(self) -> int:
        """Say what it would take, and ask nobody."""
        with dry_run() as spent:
            for grader in self.graders.values():
                run_sync(self._probe(grader, Stopping(), None))
        number = sum(not attack.harmless for attack in self._attacks())
        print(f"{counted(number, 'attack')} would take {shown_rehearsal(spent)}")
        return FINE

    def carry_out(self) -> int:
        reports: dict[str, ProbeReport] = {}
        with stoppable() as stopping, budget(dollars=self.judging.money) as spent:
            try:
                with shown_progress("verdicts", quiet=self.probing.quiet) as tell:
                    for form, grader in self.graders.items():
                        if not stopping():
                            reports[form] = stopping.run(self._probe(grader, stopping, tell))
            except KeyboardInterrupt:
                self._say(f"stopped at once{self._kept()}")
                raise
        print(
            page_of(reports, self.rubric.name or "rubric", self.probing.show).text(
                self.probing.layout
            )
        )
        if out := spent.errors["BudgetExceeded"]:
            self._say(
                f"the money ran out before {counted(out, 'call')} could be made{self._kept()}"
            )
        return self._code(reports)

    async def _probe(
        self, grader: Autograder, stopping: Stopping, tell: Tell | None
    ) -> ProbeReport:
        return await probe(
            self.rubric,
            grader,
            attacks=self._attacks(),
            responses=self._responses(),
            seed=self.probing.seed,
            stopping=stopping,
            on_progress=tell,
        )

    def _attacks(self) -> tuple[Attack, ...]:
        wanted = self.probing
        return attacks_of(wanted.families, limit=wanted.limit, seed=wanted.seed)

    def _responses(self) -> list[dict[str, Any]]:
        name = self.probing.responses
        if name is None:
            return []
        if name != "-" and not Path(name).is_file():
            raise TrustError(f"--responses {name} is no file: name a text, or a table of responses")
        return [{**text.rollout, "name": text.name} for text in texts_of([name], "")]

    def _code(self, reports: Mapping[str, ProbeReport]) -> int:
        """The most hardened form is what would be used, so that one is held to the threshold."""
        if len(reports) < len(self.graders) or not all(r.complete for r in reports.values()):
            self._say(f"stopped before all was asked{self._kept()}")
            return INTERRUPTED
        form, report = list(reports.items())[-1]
        high, most = report.overall.share.high, self.probing.fail_over
        if high is None or any(each.unanswered for each in reports.values()):
            return BROKEN
        if most is None or high <= most:
            return FINE
        self._say(
            f"up to {high:.3f} of such attacks on the {form} judge may succeed: above {most:g}"
        )
        return MISSED

    def _kept(self) -> str:
        if self.judging.no_cache:
            return ""
        place = self.judging.cache or default_place()
        return f"; what was answered is kept in {place}, so the same command goes on from there"

    def _say(self, line: str) -> None:
        if not self.probing.quiet:
            print(line, file=sys.stderr, flush=True)
