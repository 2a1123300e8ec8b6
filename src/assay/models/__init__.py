"""Ask a model: one async function, a `Request` in and a `Reply` out.

`resolve` finds the model that a name means, `endpoint_model` asks it, `provider_formats` writes what is sent, `http` and
`sdk` send it. The names load when first used: a rubric that asks no model pays for none of it.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
