"""The names of `verifiers` 0.1 on our engine: `import assay.compat.verifiers as vf` runs its programs.

After `install()` their own `import verifiers as vf` finds this package.
"""

import sys

from assay.compat.mirror import mirror
from assay.lazy import attach

__version__ = "0.1.14"  # the version whose behaviour this is

mirror(__name__)
_load, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> object:
    return _load(name) if name in __all__ else getattr(sys.modules[f"{__name__}.missing"], name)
