"""Finding: what the algebra found out about two trees."""

from typing import Final, NamedTuple


class Finding(NamedTuple):
    """Equal, different, or undecided (None), and why."""

    equal: bool | None
    reason: str


SAME: Final = Finding(True, "equal as expressions")


def undecided(reason: str) -> Finding:
    return Finding(None, reason)


def different(reason: str) -> Finding:
    return Finding(False, reason)


def all_of(findings: list[Finding], *, as_what: str) -> Finding:
    """Equal when all are; different as soon as one is; else undecided."""
    for finding in findings:
        if finding.equal is False:
            return finding
    for finding in findings:
        if finding.equal is None:
            return finding
    return Finding(True, f"equal as {as_what}")
