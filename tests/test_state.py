"""State is a dict in which membership, reads and writes agree."""

import pytest

from assay import Rollout, Rubric, State


def test_fields_of_the_input_row_are_there_under_their_own_names():
    """Reading, `in` and `get` agree; a peer says `"answer" in state` is False."""
    state = State(input={"prompt": "q", "answer": "4", "extra": 1}, completion="4")
    assert "answer" in state
    assert state["answer"] == state.get("answer") == "4"
    assert "extra" not in state
    with pytest.raises(KeyError):
        state["extra"]
    assert state.get("task", "none") == "none"


def test_writing_goes_where_reading_looks():
    """Into the row for its fields, into the state for the rest."""
    row = {"prompt": "q", "answer": "4"}
    state = State(input=row)
    state["answer"] = "5"
    state["reward"] = 1.0
    state.update(task="t")
    assert state.setdefault("prompt", "other") == "q"
    assert row == {"prompt": "q", "answer": "5", "task": "t"}
    assert state["reward"] == 1.0
    assert state.pop("answer") == "5"
    assert "answer" not in state
    assert state.pop("answer", None) is None
    with pytest.raises(KeyError):
        state.pop("answer")


def test_a_state_without_an_input_is_a_dict():
    """Nothing is forwarded anywhere."""
    state = State(prompt="q")
    state["answer"] = "4"
    assert dict(state) == {"prompt": "q", "answer": "4"}
    del state["answer"]
    assert "answer" not in state


@pytest.mark.parametrize("kind", [dict, State])
async def test_columns_of_the_input_row_reach_checks(kind):
    """For a State and for a plain dict that has the same shape."""

    def check(prompt, answer, source, **kwargs):
        return float((prompt, answer, source, kwargs["source_2"]) == ("q", "4", "book", 2))

    row = {"prompt": "q", "answer": "4", "source": "book", "source_2": 2}
    state = kind(input=row, completion="4")
    await Rubric([check]).score_rollout(state)
    assert state["reward"] == 1.0
    [report] = await Rubric([check]).score([Rollout.from_state(state)])
    assert report.raw_score == 1.0
