from assay.suggest.suggestion import Pair as Pair
from assay.suggest.suggestion import Suggestion as Suggestion
from assay.suggest.suggestion import read_pairs as read_pairs
from assay.suggest.suggestion import suggest_from_pairs as suggest_from_pairs
from assay.suggest.suggestion import suggest_from_references as suggest_from_references
