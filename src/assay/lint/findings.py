"""Name the rules of lint, and report what breaks them as findings."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from assay.lint.lexicon import word_lists

# `error`: the score comes out wrong. `warning`: judges will differ. `note`: good to know.
Severity: TypeAlias = Literal["note", "warning", "error"]

SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "error")  # from the least to the most


class LintRule(NamedTuple):
    """What is looked for, under an id that stays."""

    id: str
    name: str
    severity: Severity
    says: str  # what is wrong with a criterion that breaks it


RULES: Final = {id: LintRule(id, **rule) for id, rule in word_lists("rules.toml").items()}
"""Every rule by its id. Those from R100 need a run."""


class Hit(NamedTuple):
    """What a rule has found in one criterion."""

    rule: str
    message: str
    fix: str
    field: str = "requirement"  # the key of the criterion that it is about
    severity: Severity | None = None  # none leaves it at that of the rule


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend: what is wrong, with which criterion, and what to do.

    >>> print(Finding("R004", "cites_sources", "'several' names no number", "say how many", line=7))
    7: warning R004 cites_sources: 'several' names no number; say how many
    """

    id: str  # the rule, such as `R004`
    criterion: str  # the name it is reported by, after the names of the rubrics around it; empty for the whole
    message: str
    fix: str
    severity: Severity = "warning"
    line: int | None = None  # where it stands in the file, from 1; None when there is no file
    path: str | None = None  # the file; None when there is none

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**asdict(self), "rule": RULES[self.id].name}

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.path, self.line) if part is not None)
        about = f" {self.criterion}" if self.criterion else ""
        advice = f"; {self.fix}" if self.fix else ""
        return f"{where}{': ' if where else ''}{self.severity} {self.id}{about}: {self.message}{advice}"
