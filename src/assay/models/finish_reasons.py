"""Decide from its finish reason whether a reply is complete.

Every endpoint has words of its own for why a reply ended. A wire format translates the usual ones
with `normalize_finish_reason`; `check_complete` raises an error for a reply that was cut off,
filtered or declined.
"""

from typing import Any

from assay.errors import Refused, Truncated, Unreadable
from assay.models.model import Reply, Request

SHOWN_REFUSAL = 200  # characters of a refusal that an error message quotes
SHOWN_END = 60  # characters from the end of an incomplete reply that an error message quotes

# Words of various endpoints for a reply that reached the token limit.
_CUT_OFF = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "max_length",
        "model_context_window_exceeded",
    }
)
# Words of Anthropic and Gemini that mean the same as `stop`.
_STOPPED = frozenset({"end_turn", "stop_sequence", "tool_use", "finish_reason_unspecified"})
# Words of various endpoints for a reply that is complete.
_COMPLETE = _STOPPED | {
    "stop",
    "eos",
    "eos_token",
    "end_of_turn",
    "complete",
    "completed",
    "tool_calls",
    "function_call",
}
# Parts of the words for a reply that a content filter withheld.
_FILTERED = ("filter", "safety", "recitation", "blocklist", "prohibited", "spii", "sensitive")


def normalize_finish_reason(reason: Any) -> str:
    """Return the finish reason in the words of chat completions.

    That is `length` for a reply that was cut off and `stop` for a complete one. Unknown reasons are
    returned in lower case.
    """
    word = str(reason or "stop").lower()
    if word in _CUT_OFF:
        return "length"
    if word in _STOPPED:
        return "stop"
    return word


def check_complete(reply: Reply, model_id: str, request: Request) -> Reply:
    """Return the reply if it is complete.

    Raise `Refused` if a content filter stopped it, `Unreadable` if the model declined to answer,
    and `Truncated` if it was cut off. For a model under test (`request.verbatim`), only a content
    filter is an error.
    """
    if _asks_for_one_token(request):
        # The reply is as long as requested, so it is not cut off although the limit was reached.
        return reply._replace(finish_reason="stop")
    reason = reply.finish_reason.lower()
    if reason in _COMPLETE:
        return reply
    is_filtered = any(word in reason for word in _FILTERED)
    if is_filtered:
        raise Refused(f"{model_id} did not answer: its content filter stopped the reply")
    if request.verbatim:
        return reply
    if reason == "refusal":
        raise Unreadable(f"{model_id} declined to answer: {reply.text[:SHOWN_REFUSAL]!r}")
    end_of_text = f"…{reply.text[-SHOWN_END:]!r}"
    if reason == "length":
        raise Truncated(
            f"the reply of {model_id} was cut off after {reply.usage.completion} tokens: "
            f"{end_of_text}; allow more max_tokens, or ask for a shorter reason"
        )
    raise Truncated(
        f"{model_id} ended its reply with the reason {reply.finish_reason!r:.80}, "
        f"so it may be incomplete: {end_of_text}; see the log of the endpoint"
    )


def _asks_for_one_token(request: Request) -> bool:
    """Return True if a request wants a single token, for its log-probability."""
    return request.max_tokens == 1 and request.logprobs is not None and request.schema is None
