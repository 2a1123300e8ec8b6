"""The names of `verifiers` 0.1 on our engine: `import assay.compat.verifiers as vf` runs its programs.

After `install()` their own `import verifiers as vf` finds this package.
"""

from assay.compat.mirror import mirror
from assay.lazy import attach

__version__ = "0.1.14"  # the version whose behaviour this is

mirror(__name__)
__getattr__, __dir__, __all__ = attach(__name__)
