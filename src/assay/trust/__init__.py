"""How far a judge can be trusted.

agreement     a judge against people, beside people against each other; coefficients, what it is measured by
labels        what people said, put beside the judge's answers; questions, what was asked
bias          a score with the judge's bias taken out; drift, whether the judge moved
comparison    two runs held against each other, example by example
evidence      quotations of a judge, found in what it judged, or not
golden_run    a rubric's golden examples, and what it says of them

Everything loads when first used. Statistics need the extra `trust`.
"""

from typing import TYPE_CHECKING

from assay.errors import LabelError as LabelError
from assay.errors import TrustError as TrustError
from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.trust.agreement import Agreement as Agreement
    from assay.trust.agreement import agree as agree
    from assay.trust.agreement import agreement_of as agreement_of
    from assay.trust.bias import Corrected as Corrected
    from assay.trust.bias import Correction as Correction
    from assay.trust.bias import correct as correct
    from assay.trust.bias import corrected_mean as corrected_mean
    from assay.trust.clusters import Resampling as Resampling
    from assay.trust.coefficients import Measures as Measures
    from assay.trust.coefficients import cohen_kappa as cohen_kappa
    from assay.trust.coefficients import confusion_of as confusion_of
    from assay.trust.coefficients import krippendorff_alpha as krippendorff_alpha
    from assay.trust.coefficients import matthews_correlation as matthews_correlation
    from assay.trust.comparison import Comparison as Comparison
    from assay.trust.comparison import compare as compare
    from assay.trust.drift import Drift as Drift
    from assay.trust.drift import drift_between as drift_between
    from assay.trust.estimate import Estimate as Estimate
    from assay.trust.estimate import wilson as wilson
    from assay.trust.evidence import evidence_of as evidence_of
    from assay.trust.golden_run import GoldenReport as GoldenReport
    from assay.trust.golden_run import run_golden as run_golden
    from assay.trust.labels import LABELS as LABELS
    from assay.trust.labels import Joined as Joined
    from assay.trust.labels import Label as Label
    from assay.trust.labels import LabelledItem as LabelledItem
    from assay.trust.labels import join as join
    from assay.trust.labels import read_labels as read_labels
    from assay.trust.lint_finding import RULES as RULES
    from assay.trust.lint_finding import Finding as Finding
    from assay.trust.lint_fix import Fixed as Fixed
    from assay.trust.lint_fix import fix_rubric as fix_rubric
    from assay.trust.linting import lint as lint
    from assay.trust.questions import Question as Question
    from assay.trust.questions import questions_of as questions_of
    from assay.trust.significance import holm as holm
    from assay.trust.significance import mcnemar as mcnemar
    from assay.trust.significance import sign_flip as sign_flip

_HOMES = {
    "agreement": ("Agreement", "agree", "agreement_of"),
    "bias": ("Corrected", "Correction", "correct", "corrected_mean"),
    "clusters": ("Resampling",),
    "coefficients": (
        "Measures", "cohen_kappa", "confusion_of", "krippendorff_alpha", "matthews_correlation",
    ),
    "comparison": ("Comparison", "compare"),
    "drift": ("Drift", "drift_between"),
    "estimate": ("Estimate", "wilson"),
    "evidence": ("evidence_of",),
    "golden_run": ("GoldenReport", "run_golden"),
    "labels": ("LABELS", "Joined", "Label", "LabelledItem", "join", "read_labels"),
    "lint_finding": ("RULES", "Finding"),
    "lint_fix": ("Fixed", "fix_rubric"),
    "linting": ("lint",),
    "questions": ("Question", "questions_of"),
    "significance": ("holm", "mcnemar", "sign_flip"),
}  # fmt: skip

__getattr__ = lazily(__name__, {name: home for home, names in _HOMES.items() for name in names})
