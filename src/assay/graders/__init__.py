"""Answer the criteria that a model judges.

grader        Grader, the interface, with ask_grader and scores_from, which call graders, and
              grader_of, which makes one of whatever is given as judge=
autograder    Autograder, the adapter for graders with judge() and aggregate()
model_grader  graders that ask a model: one call per criterion, per batch, or for the whole rubric
composite     Composite, the base class of graders around other graders
panel, cascade, expectation, guard, context, tournament    graders around other graders
tool_judge    ToolJudge, a judge that may look at files and pages before it answers
judge_input   JudgeInput, what a judge is given about one response
prompt_text   the text of prompts; prompts/ holds the system prompts
fences        tags escaped and texts fenced, against prompt injection
degenerate    texts without content, which are scored without a judge
pieces        texts that are longer than the judge's window
verdicts      what a judge may reply, read as scores
evidence      what a judge cites, looked up in what it judged
length        the penalty for long answers

Graders around graders are loaded when they are first used.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
