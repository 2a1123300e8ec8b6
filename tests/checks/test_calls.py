"""Which tools were called, how and in what order, and what state is left behind."""

import json
import sys

import pytest

from assay import Rollout, Rubric, RubricError, RubricFileError
from assay.checks import Called, FinalState, NoRepeatedCalls, RecoversFromErrors, Trajectory
from assay.trajectory import read_calls
from tests.test_parts import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES


def chat(*calls, ask="Refund my order."):
    """A conversation in which each call, of a name, its arguments and its result, is a turn of its own."""
    said = [{"role": "user", "content": ask}] if ask else []
    for number, (name, arguments, *result) in enumerate(calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": text},
        }
        said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        said += [
            {"role": "tool", "tool_call_id": f"call_{number}", "content": text} for text in result
        ]
    return [*said, {"role": "assistant", "content": "Done."}]


SEARCH, REFUND, CLOSE = (
    ("search", {"order": 17}, "found"),
    ("refund", {"order": 17, "amount": 5}, "ok"),
    ("close", {}, "ok"),
)
BROKEN = ("refund", '{"order": 17', "ok")
DEEP = ("refund", "[" * 100_000 + "]" * 100_000, "ok")


@pytest.mark.parametrize("said", [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI])
def test_calls_are_read_from_every_shape(said):
    """With their results, by the SDKs' own records."""
    [call] = read_calls("Where is it?", said)
    assert (call.name, json.loads(call.arguments), call.failed) == (
        "search_orders",
        {"customer": 7},
        False,
    )
    assert "order 12" in call.result
    assert Called("search_orders", {"customer": 7.0})(said, "Where is it?").value
    assert Trajectory([{"name": "search_orders", "arguments": {"customer": 7}}])(said) is True
    assert Trajectory(["search_orders", "refund"])(said).value is False


def test_a_result_without_an_id_answers_the_first_call_that_waits():
    """And the calls of the prompt are not of the model that is scored."""

    def gemini(**part):
        return {"role": "model" if "functionCall" in part else "user", "parts": [part]}

    two = [gemini(functionCall={"name": name, "args": {}}) for name in "ab"]
    replies = [
        gemini(functionResponse={"name": name, "response": {"output": name}}) for name in "ab"
    ]
    found = read_calls([{"role": "user", "content": "Go."}], [*two, *replies])
    assert [(call.address, call.name, json.loads(call.result)["response"]) for call in found] == [
        ("m2.call1", "a", {"output": "a"}),
        ("m3.call1", "b", {"output": "b"}),
    ]
    assert read_calls(chat(SEARCH), "It is there.") == []


CALLED = [
    (Called("refund"), [SEARCH, REFUND], "m4.call1 calls refund"),
    (Called("refund"), [SEARCH], False, "0 such calls of refund, and at least 1 expected"),
    (Called("refund", times=0), [SEARCH], "no such call of refund"),
    (
        Called("refund", times=0),
        [SEARCH, REFUND],
        False,
        "1 such call of refund, and at most 0 expected; the first too many is m4.call1",
    ),
    (Called("search", times=2), [SEARCH, REFUND, SEARCH], "m2.call1 calls search"),
    (
        Called("search", times=(0, 1)),
        [SEARCH, SEARCH],
        False,
        "2 such calls of search, and at most 1 expected; the first too many is m4.call1",
    ),
    (
        Called("search", times=(3, None)),
        [SEARCH, SEARCH],
        False,
        "2 such calls of search, and at least 3 expected",
    ),
    (Called("search", before="refund"), [SEARCH, REFUND], "m2.call1 calls search"),
    (Called("search", before="refund"), [SEARCH], "m2.call1 calls search"),
    (
        Called("search", before="refund"),
        [REFUND, SEARCH],
        False,
        "m2.call1 calls refund, and no such call of search comes before it",
    ),
    (
        Called("search", before="refund", times=(0, None)),
        [REFUND],
        False,
        "m2.call1 calls refund, and no such call of search comes before it",
    ),
    (Called("search", before="refund", times=(0, None)), [CLOSE], "no such call of search"),
    (Called("refund", {"order": 17, "amount": 5.0}), [REFUND], "m2.call1 calls refund"),
    (
        Called("refund", {"order": 17}),
        [REFUND],
        False,
        "(m2.call1: amount is there, and is not expected)",
    ),
    (
        Called("refund", {"order": 17, "amount": 5, "why": ""}),
        [REFUND],
        False,
        "(m2.call1: why is missing)",
    ),
    (
        Called("refund", {"order": 17, "amount": True}),
        [REFUND],
        False,
        "(m2.call1: amount is 5 where True is expected)",
    ),
    (
        Called("refund", schema={"properties": {"amount": {"maximum": 9}}}),
        [REFUND],
        "m2.call1 calls refund",
    ),
    (
        Called("refund", schema={"properties": {"amount": {"maximum": 4}}}),
        [REFUND],
        False,
        "(m2.call1: at amount: 5 is greater than the maximum of 4)",
    ),
    (
        Called("refund", predicate=lambda given: given["amount"] < 9),
        [REFUND],
        "m2.call1 calls refund",
    ),
    (
        Called("refund", predicate=lambda given: given["amount"] > 9),
        [REFUND],
        False,
        'the predicate does not hold of {"order": 17',
    ),
    (Called("refund"), [BROKEN], "m2.call1 calls refund"),
    (
        Called("refund", {"order": 17}),
        [BROKEN],
        False,
        "(m2.call1: its arguments cannot be read: Expecting ',' delimiter",
    ),
    (Called("refund", predicate=len), [DEEP], False, "(m2.call1: its arguments cannot be read: "),
    (
        Called("search", succeeded=True),
        [("search", {}, "Error: down")],
        False,
        "(m2.call1: it did not succeed)",
    ),
    (Called("search", succeeded=True), [("search", {})], False, "(m2.call1: it did not succeed)"),
]


@pytest.mark.parametrize(
    ("check", "calls", "said"), [(c, calls, said) for c, calls, *said in CALLED]
)
def test_a_tool_is_called_as_it_should_be(check, calls, said):
    """By name, arguments, schema, predicate, number and order; a failure names the step."""
    score = check(chat(*calls))
    assert score.value is (len(said) == 1)
    assert said[-1] in score.reason


EXACT = [
    {"name": "search", "arguments": {"order": 17}},
    {"name": "refund", "arguments": {"order": 17, "amount": 5}},
]
MATCHES = [
    ("strict", ["search", "refund"], [SEARCH, REFUND], None),
    ("strict", EXACT, [SEARCH, REFUND], None),
    (
        "strict",
        EXACT,
        [REFUND, SEARCH],
        'm2.call1 is refund({"order": 17, "amount": 5}) where search({"order": 17}) is expected',
    ),
    (
        "strict",
        EXACT,
        [SEARCH],
        'refund({"order": 17, "amount": 5}) is expected and not called; the last call is m2.call1',
    ),
    ("strict", [], [SEARCH], 'm2.call1 is search({"order": 17}), which is not expected'),
    ("strict", ["search"], [], "search is expected and not called"),
    (
        "strict",
        EXACT[1:],
        [BROKEN],
        'm2.call1 is refund({"order": 17) (its arguments cannot be read: Expecting',
    ),
    ("unordered", EXACT, [REFUND, SEARCH], None),
    ("unordered", ["search", EXACT[0]], [SEARCH, ("search", {})], None),
    (
        "unordered",
        ["search", EXACT[0]],
        [("search", {}), ("search", {})],
        "m3.call1 is search({}), which is not expected",
    ),
    (
        "unordered",
        EXACT,
        [SEARCH, SEARCH, REFUND],
        'm4.call1 is search({"order": 17}), which is not expected',
    ),
    ("unordered", EXACT, [SEARCH], 'refund({"order": 17, "amount": 5}) is expected and not called'),
    ("subset", EXACT, [REFUND], None),
    ("subset", EXACT, [REFUND, CLOSE], "m4.call1 is close({}), which is not expected"),
    ("superset", EXACT, [CLOSE, REFUND, SEARCH], None),
    (
        "superset",
        EXACT,
        [CLOSE, SEARCH],
        'refund({"order": 17, "amount": 5}) is expected and not called',
    ),
    ("superset", EXACT[1:], [BROKEN, REFUND], None),
]


@pytest.mark.parametrize(("match", "expected", "calls", "why"), MATCHES)
def test_the_calls_match_the_expected_ones(match, expected, calls, why):
    """In each of the four ways, and alike when the rollout has them as data or as the text of a table."""
    said = chat(*calls)
    found = Trajectory(expected, match=match)(said)
    assert found is True if why is None else why in found.reason
    assert Trajectory(match=match)(said, answer=expected) == found
    assert (
        Trajectory(match=match, expected_in="info.task.calls")(
            said, info={"task": {"calls": json.dumps(expected)}}
        )
        == found
    )


def test_some_calls_and_arguments_are_not_compared():
    """Those of other tools, those that failed, and arguments that may be anything."""
    failed = ("refund", {"order": 1}, "Error: no such order")
    said = chat(SEARCH, failed, ("refund", {"order": 17, "note": "as asked"}, "ok"))
    expected = [
        {"function": {"name": "refund", "arguments": '{"order": 17, "note": ""}'}},
        "search",
    ]
    assert Trajectory(expected, tools=["refund"], ignore=["note"], succeeded=True)(said) is True
    assert Trajectory(expected, tools=["refund"], ignore=["note"])(said).reason.startswith(
        "m4.call1 is refund("
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "no answer to compare with"),
        ("search", "the expected calls are 'search'"),
        ([3], "expected call 1 is 3"),
        ("[search", "the expected calls are '[search': give a list"),
    ],
)
async def test_expected_calls_that_cannot_be_read_are_an_error(answer, why):
    """Of the row, and so never a no."""
    [report] = await Rubric([Trajectory()]).score([Rollout(completion=chat(SEARCH), answer=answer)])
    assert report.score is None
    assert why in report.errors["trajectory"]


def test_no_call_is_repeated():
    """But for tools that may be, and for other arguments; the order of keys does not matter."""
    twice = chat(("search", {"a": 1, "b": 2}, "ok"), ("search", {"b": 2.0, "a": 1}))
    assert (
        NoRepeatedCalls()(twice).reason == 'm4.call1 repeats m2.call1: search({"b": 2.0, "a": 1})'
    )
    assert NoRepeatedCalls(["search"])(twice) is True
    assert NoRepeatedCalls()(chat(SEARCH, ("search", {"order": 18}), REFUND)) is True
    assert NoRepeatedCalls()(chat(BROKEN, BROKEN)).reason.startswith("m4.call1 repeats m2.call1")


DOWN = ("search", {}, "Error: down")


@pytest.mark.parametrize(
    ("calls", "by_any_tool", "why"),
    [
        ([], False, None),
        ([SEARCH], False, None),
        ([DOWN, SEARCH], False, None),
        (
            [DOWN, REFUND],
            False,
            "m2.call1 (search) fails with 'Error: down', and no later call of it succeeds",
        ),
        ([DOWN, REFUND], True, None),
        (
            [REFUND, DOWN],
            True,
            "m4.call1 (search) fails with 'Error: down', and no later call succeeds",
        ),
        ([DOWN, ("search", {})], False, "m2.call1 (search) fails"),
        ([("search", {}, '{"error": "none"}')], False, "m2.call1 (search) fails"),
        ([("search", {}, '{"error": null, "found": 3}')], False, None),
        (
            [("search", {}, "Traceback (most recent call last):\n")],
            False,
            "m2.call1 (search) fails",
        ),
        ([("search", {}, "Tracebacks are explained in chapter 4.")], False, None),
        ([("search", {}, "{" * 99_999 + '"error"')], False, None),
    ],
)
def test_errors_are_recovered_from(calls, by_any_tool, why):
    """By a later call that succeeds."""
    found = RecoversFromErrors(by_any_tool=by_any_tool)(chat(*calls))
    assert found is True if why is None else why in found.reason


def test_an_error_that_is_marked_as_one_is_recovered_from():
    """As Anthropic marks it."""
    blocks = [{"type": "tool_use", "id": "a", "name": "search", "input": {}}]
    reply = [
        {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "no such order"}
    ]
    said = [{"role": "assistant", "content": blocks}, {"role": "user", "content": reply}]
    assert RecoversFromErrors()([*said, {"role": "assistant", "content": "Sorry."}]).value is False


STATE = {
    "orders": {"17": {"status": "open", "items": [{"id": 1}, {"id": 2}]}},
    "completion": "Done.",
}


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (FinalState("orders.17.status", "open"), None),
        (FinalState("orders.17.items.1.id", 2.0), None),
        (FinalState("orders.17.items", [{"id": 1}, {"id": 2}]), None),
        (
            FinalState("orders", {"17": {"status": "paid", "items": []}}),
            "orders.17.status is 'open' where 'paid' is expected",
        ),
        (FinalState("orders.17.items.2", None), "there is no orders.17.items.2"),
        (FinalState("orders.18", None), "there is no orders.18"),
        (
            FinalState("orders.17.status", expected_in="info.status"),
            "orders.17.status is 'open' where 'paid' is expected",
        ),
        (FinalState("orders.17", {}), "orders.17.status is there, and is not expected"),
        (FinalState("orders.17.status"), None),
        (FinalState("completion", "[Done.]"), "completion is 'Done.' where '[Done.]' is expected"),
    ],
)
def test_the_final_state_is_the_expected_one(check, why):
    """At a path; the first difference is named."""
    found = check(state=STATE, answer="open", info={"status": "paid"})
    assert found is True if why is None else found.reason == why


async def test_a_state_without_the_first_name_is_an_error():
    """Since it says nothing about what the model did."""
    [report] = await Rubric([FinalState("stock.17", 3)]).score([{**STATE, "prompt": "Go."}])
    assert (
        report.errors["final_state"]
        == "ValueError: the state has no 'stock': it has orders, completion, prompt"
    )


def is_cheap(arguments):
    """A predicate of this module."""
    return arguments["amount"] <= 5


@pytest.fixture
def importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "own_predicates", sys.modules[__name__])
    monkeypatch.setattr(is_cheap, "__module__", "own_predicates")


FILE = """
- check: {called: {tool: refund, predicate: "own_predicates:is_cheap"}}
- check: {trajectory: {expected_in: info.calls, match: superset}}
  name: does_what_was_asked
- check: no_repeated_calls
- check: recovers_from_errors
- check: {final_state: {at: orders.17.status, equals: refunded}}
"""


async def test_a_file_names_them(importable):
    """And code in it only where the caller says so; what cannot be named cannot be written."""
    rubric = Rubric.from_yaml(FILE, allow_code=True)
    state = {"orders": {"17": {"status": "refunded"}}}
    [report] = await rubric.score(
        [Rollout(completion=chat(SEARCH, REFUND), info={"calls": ["refund"]}, state=state)]
    )
    assert report.score == 1.0
    assert Rubric.from_dict(rubric.to_dict(), allow_code=True).content_hash == rubric.content_hash
    with pytest.raises(RubricFileError, match="'own_predicates:is_cheap' names code"):
        Rubric.from_yaml(FILE)
    nameless = Rubric([Called("refund", predicate=lambda given: True)])
    assert nameless.content_hash
    with pytest.raises(RubricError, match="cannot be written to a file"):
        nameless.to_dict()


async def test_a_predicate_that_raises_is_an_error():
    """Of the check, and not of the model."""
    [report] = await Rubric([Called("refund", predicate=lambda given: given["sum"])]).score(
        [{"completion": chat(REFUND)}]
    )
    assert report.errors == {"called": "KeyError: 'sum'"}
