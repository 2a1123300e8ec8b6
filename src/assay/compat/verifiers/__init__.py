"""The names of `verifiers` 0.1, implemented by ours: use `import assay.compat.verifiers as vf`.

After `install()`, `import verifiers as vf` imports this package, too.
"""

import sys

from assay.compat.mirror import mirror
from assay.lazy import attach

__version__ = "0.1.14"  # the version whose behaviour this follows

mirror(__name__)
_load, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> object:
    """Load a name. For one that we do not have, the module `missing` raises an error with the reason."""
    if name in __all__:
        return _load(name)
    return getattr(sys.modules[f"{__name__}.missing"], name)
