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

from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.models.base import Model as Model
    from assay.models.base import Reply as Reply
    from assay.models.base import Request as Request
    from assay.models.base import Token as Token
    from assay.models.base import Usage as Usage
    from assay.models.default import configure as configure
    from assay.models.default import default_model as default_model
    from assay.models.ledger import Ledger as Ledger
    from assay.models.ledger import budget as budget
    from assay.models.ledger import rehearsal as rehearsal
    from assay.models.limiter import Limits as Limits
    from assay.models.names import model_of as model_of
    from assay.models.prices import Price as Price
    from assay.models.prices import price_of as price_of

_HOMES = {
    "base": ("Model", "Reply", "Request", "Token", "Usage"),
    "default": ("configure", "default_model"),
    "ledger": ("Ledger", "budget", "rehearsal"),
    "limiter": ("Limits",),
    "names": ("model_of",),
    "prices": ("Price", "price_of"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Ledger",
    "Limits",
    "Model",
    "Price",
    "Reply",
    "Request",
    "Token",
    "Usage",
    "budget",
    "configure",
    "default_model",
    "model_of",
    "price_of",
    "rehearsal",
]


__getattr__ = lazily(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
