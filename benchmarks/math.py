"""Measure assay.math against verifiers and math-verify: `python benchmarks/math.py`.

Prints tables of figures, ratios and targets, and adds them to benchmarks/RESULTS.md. Targets that
are missed are written as missed. README.md says what is measured.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

if __name__ == "math":
    # A script beside this file asked for the standard library's `math` and found this one first,
    # because its own folder leads its path: hand it the real module.
    _elsewhere = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent]
    _spec = PathFinder.find_spec("math", _elsewhere)
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules["math"] = module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["math"])

if __name__ == "__main__":
    from math_command import main

    sys.exit(main())
