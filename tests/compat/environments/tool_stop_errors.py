"""An error of a listed kind ends the rollout as an error of a tool."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "break", "answer": "x"}, {"question": "bend", "answer": "x"}]
REPLIES = {
    "break": [("risky", {"kind": "value"}), "never"],
    "bend": [("risky", {"kind": "key"}), "ok"],
}


def risky(kind: str) -> str:
    """Raise an error of a kind."""
    raise ValueError("broken") if kind == "value" else KeyError("bent")


def spoke(completion) -> float:
    return float(completion[-1]["role"] == "assistant")


def load_environment() -> vf.Environment:
    return vf.ToolEnv(
        dataset=Dataset.from_list(ROWS),
        tools=[risky],
        stop_errors=[ValueError],
        error_formatter=lambda e: f"{type(e).__name__}!",
        rubric=vf.Rubric(funcs=[spoke]),
    )
