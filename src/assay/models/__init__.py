"""How to ask a model: one async function, a `Request` in and a `Reply` out.

base      Request, Reply, Model: the interface, and all that a grader needs
names     model_of: a name, an endpoint, a client or a function as a Model
default   configure and default_model: who is asked when nobody is named
limits    how hard an endpoint may be pressed; endpoint, gate, pace, breaker, retry hold to it
ledger    budget: what a run asks for and spends, and how much it may; prices, what tokens cost
reading   the value in a reply; schema, dialect, repair, what it takes to get there
caching   a model that is not asked twice; flight, not even at the same time
client    HTTP connections, one pool a loop; address, connection, incoming are what it takes

The names load when first used: a rubric that asks no model pays for none of it.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
