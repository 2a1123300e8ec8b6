"""Say in a plain sentence what a criterion does to the score."""

from assay.criterion import BINARY_CHOICES, Criterion, is_scorer


def describe_effect(criterion: Criterion) -> str:
    """Return what the answer to a criterion does to the score.

    >>> describe_effect(Criterion(requirement="Names a drug that does not exist", weight=-5))
    'MET subtracts 5 points'
    """
    parts = [_describe_answer(criterion)]
    if criterion.report_only and criterion.weight:
        parts.append("reported, not counted")
    if criterion.required:
        parts.append(f"a veto: if it fails, the score is at most {criterion.cap:g}")
    if criterion.when:
        parts.append(f"asked only if {_describe_conditions(criterion)}")
        if criterion.when_false == "unmet":
            parts.append(f"otherwise {criterion.choices[0]}")
    if criterion.reference:
        parts.append(f"the judge is shown {', '.join(criterion.reference)}")
    return "; ".join(parts)


def _describe_answer(criterion: Criterion) -> str:
    """Return how the answer changes the sum, and for levels their order."""
    points = _describe_points(criterion.weight)
    if criterion.choices != BINARY_CHOICES:
        levels = f"levels from worst to best: {', '.join(criterion.choices)}"
        return f"{levels}; {criterion.choices[-1]} {points}"
    if criterion.judged:
        return f"{criterion.choices[-1]} {points}"
    if is_scorer(criterion.check):
        return f"a rubric; its full score {points}"
    return f"a check by code; MET {points}"


def _describe_points(weight: float) -> str:
    """Return what a met criterion of this weight does to the sum, such as "adds 2 points"."""
    if not weight:
        return "is reported and adds nothing"
    verb = "adds" if weight > 0 else "subtracts"
    if abs(weight) == 1:
        return f"{verb} 1 point"
    return f"{verb} {abs(weight):g} points"


def _describe_conditions(criterion: Criterion) -> str:
    """Return the conditions of a criterion, such as "cites_sources is MET"."""
    conditions: list[str] = []
    for condition in criterion.verdict_conditions:
        verdicts = " or ".join(map(str, condition.verdicts)) or "passed"
        conditions.append(f"{condition.criterion} is {verdicts}")
    for condition in criterion.column_conditions:
        values = " or ".join(map(str, condition.values))
        conditions.append(f"the column {condition.column} is {values}")
    return " and ".join(conditions)
