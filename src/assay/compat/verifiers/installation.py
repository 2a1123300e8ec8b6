"""install makes this package what `import verifiers` finds, so that environments written for that run as they are."""

import sys

OURS, THEIRS = "assay.compat.verifiers", "verifiers"


def install() -> None:
    """Let `import verifiers as vf` find `assay.compat.verifiers` in this process. Call it before the first such import.

    Raises an `ImportError` when verifiers itself is imported already: its classes and ours must not meet.
    """
    there = sys.modules.get(THEIRS)
    if there is not None and there is not sys.modules[OURS]:
        raise ImportError(
            "verifiers itself is imported already: call install() before anything that imports it"
        )
    for name, module in [*sys.modules.items()]:
        if name == OURS or name.startswith(f"{OURS}."):
            sys.modules[name.replace(OURS, THEIRS, 1)] = module
