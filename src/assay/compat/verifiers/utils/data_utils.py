"""`verifiers.utils.data_utils`: answers out of texts."""

from assay.parsers import extract_boxed_answer, extract_hash_answer, strip_non_numeric

BOXED_SYSTEM_PROMPT = (
    "Work through the problem step by step, then give the final answer inside \\boxed{}."
)
THINK_BOXED_SYSTEM_PROMPT = (
    "Reason between <think> and </think> tags, then give the final answer inside \\boxed{}."
)

__all__ = [
    "BOXED_SYSTEM_PROMPT",
    "THINK_BOXED_SYSTEM_PROMPT",
    "extract_boxed_answer",
    "extract_hash_answer",
    "strip_non_numeric",
]
