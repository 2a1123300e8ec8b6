from assay.lint.effects import describe_effect as describe_effect
from assay.lint.findings import RULES as RULES
from assay.lint.findings import Finding as Finding
from assay.lint.fix import RubricFix as RubricFix
from assay.lint.fix import fix_rubric as fix_rubric
from assay.lint.linter import lint as lint
