"""The endpoint that all subjects ask: a fixed latency, faults on demand, and it counts.

Started in a process of its own; its only argument is the task as JSON: `latency`, and `faults`, the
share of each kind. Prints its address and serves until its standard input closes.
"""

import gc
import json
import sys

from workloads import CRITERIA, verdict_on

from assay.testing import Fault, ModelServer, mixed

KINDS = {
    "rate_limited": Fault.rate_limited(),
    "failing": Fault.failing(),
    "hanging": Fault.hanging(),
    "garbage": Fault.saying("As an AI language model, I think that it depends."),
}


def answer(system: str, user: str) -> dict[str, str]:
    """A verdict by the words of the criterion that is asked about."""
    [requirement] = [c["requirement"] for c in CRITERIA if c["requirement"] in user] or [""]
    verdict = verdict_on(requirement)
    return {"explanation": "The response says so in its second sentence.", "criterion_status": verdict}


def main() -> None:
    # It keeps every call, and a look through all of them would hold up all callers.
    gc.disable()
    task = json.loads(sys.argv[1])
    faults = mixed({KINDS[kind]: share for kind, share in task["faults"].items()})
    with ModelServer(answer, latency=task["latency"], faults=faults, name="judge") as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
