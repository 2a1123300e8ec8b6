"""How to ask a model: one async function, a `Request` in and a `Reply` out.

base      Request, Reply, Model: the interface, and all that a grader needs
names     model_of: a name, an endpoint, a client or a function as a Model
default   configure and default_model: who is asked when nobody is named
"""

from assay.models.base import Model, Reply, Request, Token, Usage
from assay.models.default import configure, default_model
from assay.models.names import model_of

__all__ = [
    "Model",
    "Reply",
    "Request",
    "Token",
    "Usage",
    "configure",
    "default_model",
    "model_of",
]
