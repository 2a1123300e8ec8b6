"""Reports as shown in a terminal."""

import pytest

from assay import CriterionReport, EvaluationReport


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ({"value": 1.0, "verdict": "MET", "passed": True}, "MET    +2  tone"),
        ({"value": 1.0, "verdict": "excellent", "passed": True}, "excellent +2  tone"),
        ({"value": 0.25}, "0.25   +2  tone"),
        ({"error": "Timeout: no reply"}, "error  +2  tone: Timeout: no reply"),
        ({"asked": False}, "not asked +2  tone"),
        ({"asked": False, "error": "Timeout: no reply"}, "error  +2  tone: Timeout: no reply"),
        ({"value": 1 / 3}, "0.3333 +2  tone"),
        ({"verdict": "N/A"}, "N/A    +2  tone"),
        ({"value": 0.0, "verdict": "UNMET", "reason": "so"}, "UNMET  +2  tone: so"),
    ],
)
def test_a_line_begins_with_its_verdict(line, shown):
    """The weight is in a column of its own, however long it is."""
    report = EvaluationReport(report=[CriterionReport(name="tone", weight=2, **line)])
    assert str(report).split("\n")[1].strip() == shown
