"""load_example_dataset loads a data set to try things on; beside it the small functions of `verifiers.utils`."""

import inspect
import logging
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from assay.compat.verifiers.records import MissingKeyError
from assay.parsers import extract_boxed_answer, extract_hash_answer

# In their words, spaces included: what a model is asked is part of its score.
BOXED_SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."
THINK_BOXED_SYSTEM_PROMPT = (
    "Think step-by-step inside <think>...</think> tags.     Then, give your final answer inside \\boxed{}."
)


class _Source(NamedTuple):
    """Where a data set is, and how its rows become questions with answers."""

    path: str
    subset: str | None
    split: str
    row: Callable[[dict[str, Any]], dict[str, Any]]


def _of(question: str, answer: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: {"question": row[question], "answer": answer(row)}


def _with_letters(options: str, answer: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def row_of(row: dict[str, Any]) -> dict[str, Any]:
        listed = [f"\n{letter}: {option}" for letter, option in zip("ABCDEFGHIJ", row[options], strict=False)]
        return {"question": f"Question: {row['question']}\n{''.join(listed)}", "answer": answer(row)}

    return row_of


def _of_openbook(row: dict[str, Any]) -> dict[str, Any]:
    choices = zip(row["choices"]["label"], row["choices"]["text"], strict=True)
    listed = "\n".join(f"{label}. {text}" for label, text in choices)
    return {"question": f"Question: {row['question_stem']}\n\nChoices:\n{listed}", "answer": row["answerKey"]}


_PROBLEM = _of("problem", lambda row: row["answer"])
_SOURCES = {
    "gsm8k": _Source("openai/gsm8k", "main", "test", _of("question", lambda row: extract_hash_answer(row["answer"]))),
    "math": _Source("chiayewken/competition_math", None, "train", _of("problem", lambda row: extract_boxed_answer(row["solution"]))),
    "math500": _Source("HuggingFaceH4/MATH-500", None, "test", _PROBLEM),
    "aime2024": _Source("HuggingFaceH4/aime_2024", None, "train", _of("problem", lambda row: str(int(row["answer"])))),
    "amc2023": _Source("knoveleng/AMC-23", None, "train", _PROBLEM),
    "openrs": _Source("knoveleng/open-rs", None, "train", _PROBLEM),
    "mmlu": _Source("cais/mmlu", "all", "dev", _with_letters("choices", lambda row: "ABCD"[row["answer"]])),
    "mmlu_pro": _Source("TIGER-Lab/MMLU-Pro", None, "validation", _with_letters("options", lambda row: row["answer"])),
    "openbookqa": _Source("allenai/openbookqa", "main", "train", _of_openbook),
    "prime_code": _Source(
        "PrimeIntellect/verifiable-coding-problems", None, "train", _of("prompt", lambda row: row["verification_info"])
    ),
}  # fmt: skip


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


async def maybe_call_with_named_args(func: Callable[..., Any], **known: Any) -> Any:
    """Call a function with those of the arguments that it names, or all if it takes any."""
    parameters = inspect.signature(func).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return await maybe_await(func, **(known if takes_all else {n: v for n, v in known.items() if n in parameters}))


def ensure_keys(keys: list[str]) -> None:
    """Raise a `MissingKeyError` when environment variables are not set."""
    missing = [key for key in keys if not os.environ.get(key)]
    if missing:
        raise MissingKeyError(missing)


def concat_messages(messages_list: list[list[Any]]) -> list[Any]:
    return [message for messages in messages_list for message in messages]


async def parse_response_message(response: Any) -> list[Any]:
    """What a `Response` says, as a chat of one message."""
    return [response.choices[0].message]


def setup_logging(level: str = "INFO") -> None:
    """Show our log lines from this level on, on standard error."""
    logger = logging.getLogger("assay")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level.upper())
