"""Ask a model: an async function that takes a `Request` and returns a `Reply`.

`resolve` makes the model that a name stands for, from an entry of `providers`. `endpoint_model` asks it. A wire format
(`wire_format`) writes what is sent and reads what comes back; `http` and `sdk` send it. The names are imported when they
are first used, so a rubric that asks no model does not load them.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
