"""Turn the state of a rollout into plain data and back, so that it can be judged after a kill."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from assay.models import Reply
from assay.runs.jsonable import as_ascii, type_adapter
from assay.types import State

# What every session has anew.
_LEFT_OUT = frozenset({"client"})


def describe_state(state: State) -> dict[str, Any] | None:
    """Return a state as plain data to save; None if `restore_state` would give another state.

    That is so if an environment has put objects into it. Such a rollout is not saved before it is
    scored, and after a kill it is generated again.
    """
    try:
        described = _describe(state)
        restored = restore_state(json.loads(as_ascii(described)), client=state.get("client"))
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError):
        return None
    return described if dict(restored) == dict(state) else None


def _describe(state: State) -> dict[str, Any]:
    """Return a state as plain data, without checking that it can be restored."""
    described = {name: value for name, value in dict(state).items() if name not in _LEFT_OUT}
    replies: Sequence[Any] = described.get("responses") or ()
    if replies:
        if not all(isinstance(reply, Reply) for reply in replies):
            raise TypeError("the replies are objects of another client, which cannot be restored")
        described["responses"] = type_adapter(list[Reply]).dump_python(list(replies), mode="json")
    if described.get("trajectory"):
        described["trajectory"] = [
            _describe_step(step, replies) for step in described["trajectory"]
        ]
    return described


def _describe_step(step: Mapping[str, Any], replies: Sequence[Any]) -> dict[str, Any]:
    """Return a turn of a trajectory, with the position of its reply in place of the reply."""
    response = step.get("response")
    for position, reply in enumerate(replies):
        if reply is response:
            return {**step, "response": position}
    return dict(step)


def restore_state(described: dict[str, Any], *, client: Any) -> State:
    """Return the state that `describe_state` has described, with the client of this session."""
    state = State(described)
    if client is not None:
        state["client"] = client
    replies = described.get("responses")
    if replies:
        replies = cast("list[Reply]", type_adapter(list[Reply]).validate_python(replies))
        state["responses"] = replies
        for step in cast("list[dict[str, Any]]", state.get("trajectory") or []):
            position = step.get("response")  # of the reply, see `_describe_step`
            if isinstance(position, int):
                step["response"] = replies[position]
    return state
