"""Name the rules of lint, and report what breaks them as findings."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from assay.lint.lexicon import word_lists

# `error`: the score comes out wrong. `warning`: judges will differ. `note`: good to know.
Severity: TypeAlias = Literal["note", "warning", "error"]

SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "error")  # from the least to the most


class LintRule(NamedTuple):
    """A rule of lint. Its id does not change from version to version."""

    id: str
    name: str
    severity: Severity
    says: str  # what is wrong with a criterion that breaks it


RULES: Final = {id: LintRule(id, **rule) for id, rule in word_lists("rules.toml").items()}
"""Every rule by its id. Those from R100 need a run."""


class Hit(NamedTuple):
    """A fault that a rule has found in one criterion."""

    rule: str
    message: str
    fix: str
    field: str = "requirement"  # the key of the criterion that it is about
    severity: Severity | None = None  # None for that of the rule


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: what is wrong, with which criterion, and what to do.

    >>> print(Finding("R004", "cites_sources", "'several' names no number", "say how many", line=7))
    7: warning R004 cites_sources: 'several' names no number; say how many
    """

    id: str  # the rule, such as `R004`
    # The criterion's name, after those of the rubrics around it. Empty if the finding is about the
    # whole rubric.
    criterion: str
    message: str
    fix: str
    severity: Severity = "warning"
    line: int | None = None  # in the file, from 1; None if there is no file
    path: str | None = None  # of the file; None if there is none

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {**asdict(self), "rule": RULES[self.id].name}

    def __str__(self) -> str:
        position = ":".join(str(part) for part in (self.path, self.line) if part is not None)
        prefix = f"{position}: " if position else ""
        name = f" {self.criterion}" if self.criterion else ""
        advice = f"; {self.fix}" if self.fix else ""
        return f"{prefix}{self.severity} {self.id}{name}: {self.message}{advice}"
