"""The peers of `math.py`: two kinds of verifiers, and the library under both."""

from peers import Peer

# What decides a verdict and its cost, alike for all three.
_MATH_PINS = ("latex2sympy2_extended==1.11.0", "sympy==1.14.0", "antlr4-python3-runtime==4.13.2")
_VERIFIERS_PINS = ("math-verify==0.9.0", *_MATH_PINS, "datasets==4.6.1", "pydantic==2.14.3")

THREADS = "verifiers 0.1.11"
PROCESSES = "verifiers 0.1.14"
BARE = "math-verify"

MATH_PEERS = (
    # Fifty threads of one process.
    Peer("verifiers", "0.1.11", _VERIFIERS_PINS, label=THREADS),
    # A pool of one process.
    Peer("verifiers", "0.1.14", _VERIFIERS_PINS, label=PROCESSES),
    # Called directly, in the main thread.
    Peer("math-verify", "0.9.0", _MATH_PINS, label=BARE),
)
