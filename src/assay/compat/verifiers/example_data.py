"""load_example_dataset loads a data set to try things on; beside it the small functions of `verifiers.utils`."""

import inspect
import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from assay.parsers import extract_hash_answer

BOXED_SYSTEM_PROMPT = "Work through the problem step by step, then give the final answer inside \\boxed{}."
THINK_BOXED_SYSTEM_PROMPT = "Reason between <think> and </think> tags, then give the final answer inside \\boxed{}."


class _Source(NamedTuple):
    """Where a data set is, and how its rows become questions with answers."""

    path: str
    subset: str | None
    split: str
    row: Callable[[dict[str, Any]], dict[str, Any]]


def _of_gsm8k(row: dict[str, Any]) -> dict[str, Any]:
    return {"question": row["question"], "answer": extract_hash_answer(row["answer"])}


def _of_problem(row: dict[str, Any]) -> dict[str, Any]:
    return {"question": row["problem"], "answer": str(row["answer"])}


_SOURCES = {
    "gsm8k": _Source("openai/gsm8k", "main", "test", _of_gsm8k),
    "math500": _Source("HuggingFaceH4/MATH-500", None, "test", _of_problem),
    "aime2024": _Source("HuggingFaceH4/aime_2024", None, "train", _of_problem),
}


def load_example_dataset(name: str = "gsm8k", split: str | None = None, n: int | None = None, seed: int = 0) -> Any:
    """Load a well-known data set with `question` and `answer`, by `datasets`; with `n`, so many rows at random."""
    if name not in _SOURCES:
        raise ValueError(f"{name!r} is no example that we know: use {', '.join(_SOURCES)}")
    source = _SOURCES[name]
    try:
        datasets: Any = import_module("datasets")
    except ImportError:
        raise ImportError(
            "example data need the package 'datasets', which is not installed: pip install datasets"
        ) from None
    dataset = datasets.load_dataset(source.path, source.subset, split=split or source.split)
    if n is not None:
        dataset = dataset.shuffle(seed=seed).select(range(min(n, len(dataset))))
    return dataset.map(source.row, remove_columns=dataset.column_names)


async def maybe_await(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    result = func(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def setup_logging(level: str = "INFO") -> None:
    """Show our log lines from this level on, on standard error."""
    logger = logging.getLogger("assay")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level.upper())
