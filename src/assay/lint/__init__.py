"""Find what a rubric says in a way that judges will stumble over, before any model is asked.

linter        a rubric, or the file of one, to findings
findings      the rules by their ids, and what a finding is
rules         what is wrong with one criterion by itself
conflicts     what is wrong with criteria beside each other
run_rules     what the verdicts of a run tell; needs the extra `trust`
fix           a rubric file with what can be mended mended
lexicon       the words of requirements; the data are `words.toml` and `patterns.toml`
"""

from assay.lint.findings import RULES as RULES
from assay.lint.findings import Finding as Finding
from assay.lint.fix import RubricFix as RubricFix
from assay.lint.fix import fix_rubric as fix_rubric
from assay.lint.linter import lint as lint
