"""Public fakes and makers for tests, and a model endpoint on this machine that fails on demand.

fakes         FakeModel: answers by rule, and remembers what it was asked; rollouts, states and rubrics at random
model_server  ModelServer: a real HTTP endpoint on 127.0.0.1; replies, what it answers; faults, what may go wrong with it

Nothing here pretends to be a model: answers come by a rule that the test states.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
