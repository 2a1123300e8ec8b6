"""`verifiers.rubrics.rubric_group`."""

import assay
from assay.compat.verifiers.rubrics.rubric import Rubric


class RubricGroup(Rubric, assay.RubricGroup):
    """Ours, under their name, with a reward that is always a number."""


__all__ = ["RubricGroup"]
