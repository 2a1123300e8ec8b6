"""Grade by a model: what answers the criteria that have words and no code.

autograder    Autograder: subclass it for a judge of your own; Composite, a grader around graders
model_grader  one call a criterion, a few criteria a call, one call for all, or one number for all
panel, cascade, expectation, guard, context, tournament    graders around graders
tool_judge    ToolJudge: a judge that may look at files and pages before it answers
judge_input   what a judge reads; prompts/, in prose
verdicts      what a judge replies, read as scores
evidence      what a judge cites, found in what it judged, or not
pieces        what is longer than a judge's window, cut, and what was cited of it
length        what a long answer loses

Graders around graders load when first used: a rubric without them pays for none.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
