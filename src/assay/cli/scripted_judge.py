"""A scripted judge for the demo and the tutorial: it looks for keywords and works without a key."""

from __future__ import annotations

import json
import re
from typing import Final

# What makes the judge say that a response meets a requirement: for words of the requirement, the
# words of the response. For other requirements, the response must contain a word of them.
_RULES: Final = {
    "thank": ("thank", "grateful"),
    "help": ("happy to help", "need more help", "let us know"),
    "blame": ("your fault", "your mistake", "you should have"),
    "apolog": ("sorry", "apolog"),
    "greet": ("hello", "dear", "good morning"),
}
# A requirement that excludes sarcasm is not met by these.
_SARCASM: Final = ("so much for", "yet again", "oh great")


def answer_by_script(system_prompt: str, user_prompt: str) -> str:
    """Return the reply of the scripted judge to a prompt, as the prompt asks for it."""
    requirement = _find_block(user_prompt, "criterion").lower()
    response = _find_block(user_prompt, "response").lower()
    words = _find_words(requirement, response)  # None if the requirement is not met
    excludes_sarcasm = "sarcas" in requirement or "irony" in requirement
    if excludes_sarcasm and any(phrase in response for phrase in _SARCASM):
        words = None
    explanation = "Scripted judge: the response has none of the words that it looks for."
    if words is not None:
        explanation = f'Scripted judge: the response says "{words}".'
    choices_block = _find_block(user_prompt, "choices")
    if choices_block:  # from worst to best
        choices = choices_block.split("\n")
        choice = choices[0] if words is None else choices[-1]
        return json.dumps({"explanation": explanation, "choice": choice})
    verdict = "UNMET" if words is None else "MET"
    return json.dumps({"explanation": explanation, "criterion_status": verdict})


def _find_words(requirement: str, response: str) -> str | None:
    """Return the words that make the response meet the requirement; None without any."""
    for topic, words in _RULES.items():
        if topic in requirement:
            return next((word for word in words if word in response), None)
    for word in re.findall(r"\w{4,}", requirement):
        if word in response:
            return word
    return None


def _find_block(prompt: str, tag: str) -> str:
    """Return the text between the last tags of this name; empty without them."""
    blocks = re.findall(rf"<{tag}>(.*?)</{tag}>", prompt, re.DOTALL)
    return blocks[-1].strip() if blocks else ""
