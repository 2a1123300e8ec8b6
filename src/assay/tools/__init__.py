"""Offer tools that a model can call. Each takes text and gives text, and a failure begins with `Error:`.

arithmetic   calculator: an expression, worked out and never run as code
interpreter  python: code, run in a process of its own
warden       the process that watches it and puts up fences, which linux asks the kernel for
failures     how a tool says that it failed, and how one can tell
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
