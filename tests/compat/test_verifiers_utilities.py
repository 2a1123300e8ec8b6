"""The small functions of verifiers 0.1.14 give here what they give there."""

import json

import pytest

from tests.compat.utility_calls import RECORDED, calls, outcome

EXPECTED = json.loads(RECORDED.read_text(encoding="utf-8"))
CALLS = calls("assay.compat.verifiers")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_it_gives_in_verifiers(name):
    """The values were recorded from verifiers itself, by `utility_calls.py`."""
    assert json.loads(json.dumps(outcome(CALLS[name]))) == EXPECTED[name]
