"""Public fakes and makers for tests, and a model endpoint on this machine that fails on demand.

fakes    FakeModel: answers by rule, and remembers what it was asked
makers   rollouts, states, calls of tools, and rubrics at random
server   ModelServer: a real HTTP endpoint on 127.0.0.1; faults, what may go wrong with it

Nothing here pretends to be a model: answers come by a rule that the test states.
"""

from assay.testing.fakes import FakeModel
from assay.testing.faults import Fault, mixed
from assay.testing.makers import Fixed, make_rollout, make_state, rubrics, tool_call
from assay.testing.server import Asked, ModelServer

__all__ = [
    "Asked",
    "FakeModel",
    "Fault",
    "Fixed",
    "ModelServer",
    "make_rollout",
    "make_state",
    "mixed",
    "rubrics",
    "tool_call",
]
