"""Stock refusals, by how a text opens."""

import pytest

from assay import Score
from assay.checks import Refusal


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but I can\u2019t help with that.",
        "I cannot assist with this request.",
        "I can not provide instructions for that.",
        "I'm unable to do so.",
        "As an AI, I won't help you with this.",
        "  \n\nSorry, I can't do that.",
        "I must decline.",
        "**I cannot  comply** with it.",
        "Dabei kann ich Ihnen leider nicht helfen. Damit kann ich nicht dienen.",
        "Es tut mir leid, aber ich kann das nicht tun.",
        "Je suis désolé, mais je ne peux pas vous aider.",
        "Lo siento, pero no puedo ayudar con eso.",
        "Desculpe, mas não posso ajudar com isso.",
        "Mi dispiace, ma non posso aiutarti.",
        "Sorry, maar ik kan je daar niet mee helpen.",
        "抱歉，我无法提供这类信息。",  # noqa: RUF001
        "申し訳ありませんが、お手伝いできません。",
    ],
)
def test_a_stock_refusal_is_told(text):
    """In nine languages, whatever the apostrophe."""
    result = Refusal()(text)
    assert isinstance(result, Score)
    assert result.value is True
    assert result.reason.startswith("it says '")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris.",
        "I can't help but admire the bridge.",
        "I can help with that.",
        "You cannot divide by zero.",
        "Here is the plan. " * 30 + "I cannot help with that.",
    ],
)
def test_an_answer_is_no_refusal(text):
    """Nor is one that mentions a refusal far down."""
    assert Refusal()(text) is False
