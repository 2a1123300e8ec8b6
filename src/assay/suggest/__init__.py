"""Draft criteria by a model, and judge them before they are relied on.

suggestion    criteria drafted, judged and kept or dropped, with what speaks for each
drafts        what a model proposes, from pairs of responses or from references

It needs the extra `trust`.
"""

from assay.suggest.drafts import Pair as Pair
from assay.suggest.drafts import read_pairs as read_pairs
from assay.suggest.suggestion import Suggestion as Suggestion
from assay.suggest.suggestion import suggest_from_pairs as suggest_from_pairs
from assay.suggest.suggestion import suggest_from_references as suggest_from_references
