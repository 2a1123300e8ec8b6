"""Who answers the criteria that a model judges.

base           Autograder: subclass it for a judge of your own
per_criterion  one call a criterion; one_shot, one call for all; batches, any number between
holistic       one number for all
composite      graders around graders: panel, cascade, expectation, early_stop, guard
anchored       what a judge is shown beside the reply: judged examples; shown, the rest
tournament     the responses of a group, two by two
schemas        what a model replies; generate, the functions that ask it
prompting      what it is asked; prompts/, in prose; fence, around what is judged
degenerate     answers that are none; templates and ratings, a judge in the user's own words

Graders around graders load when first used: a rubric without them pays for none.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
