"""Let `import verifiers` import this package, so that environments written for verifiers run unchanged."""

import sys

OUR_NAME = "assay.compat.verifiers"
THEIR_NAME = "verifiers"


def install() -> None:
    """Let `import verifiers as vf` import `assay.compat.verifiers` in this process.

    Call it before the first such import. It raises an `ImportError` if verifiers itself is already
    imported, since its classes and ours cannot be mixed.
    """
    imported = sys.modules.get(THEIR_NAME)
    if imported is not None and imported is not sys.modules[OUR_NAME]:
        raise ImportError(
            "verifiers itself is already imported: call install() before anything that imports it"
        )
    # Our modules under their names, too. All modules that verifiers has were created with ours.
    for name, module in list(sys.modules.items()):
        if name == OUR_NAME or name.startswith(f"{OUR_NAME}."):
            their_name = name.replace(OUR_NAME, THEIR_NAME, 1)
            sys.modules[their_name] = module
