"""Load well-known data sets; and the small functions of `verifiers.utils`."""

import asyncio
import json
import logging
import os
import random
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from datetime import date
from functools import partial
from importlib import import_module
from operator import methodcaller
from pkgutil import get_data
from typing import Any, cast

from pydantic import BaseModel

from assay.compat.verifiers import lenient_parsers
from assay.compat.verifiers.records import (
    Error,
    InfraError,
    InvalidModelResponseError,
    MissingKeyError,
)
from assay.compat.verifiers.typed_messages import format_messages, to_chat_message
from assay.envs.base_env import await_if_needed
from assay.errors import import_extra
from assay.redaction import get_logger

# Exactly as in verifiers, with its spaces, since the score of a model depends on its prompt.
BOXED_SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."
THINK_BOXED_SYSTEM_PROMPT = "Think step-by-step inside <think>...</think> tags.     Then, give your final answer inside \\boxed{}."
_logger = get_logger("assay")
_SOURCES: dict[str, dict[str, Any]] = json.loads(
    get_data("assay.compat.verifiers", "example_data.json") or b""
)


def load_example_dataset(
    name: str = "gsm8k", split: str | None = None, n: int | None = None, seed: int = 0
) -> Any:
    """Load a well-known data set, with the columns `question` and `answer`.

    With `n`, that many random rows are returned.
    """
    preprocess = get_preprocess_fn(name, seed)
    source = _SOURCES[name]
    datasets = import_extra("datasets", "example data")
    parts: list[Any] = []
    for subset in source.get("subsets", [None]):
        parts.append(datasets.load_dataset(source["path"], subset, split=split or source["split"]))
    dataset = datasets.concatenate_datasets(parts)
    if "only" in source:  # only rows whose column starts with this text
        [(column, start)] = source["only"].items()
        dataset = dataset.filter(methodcaller("startswith", start), input_columns=[column])
    if n is not None and n > 0:
        dataset = dataset.shuffle(seed=seed).select(range(min(n, len(dataset))))
    return dataset.map(preprocess, remove_columns=dataset.column_names)


def get_preprocess_fn(name: str, seed: int = 0) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function that turns a row of a well-known data set into question and answer."""
    if name not in _SOURCES:
        raise ValueError(f"unknown example data {name!r}: use {', '.join(_SOURCES)}")
    return partial(_preprocess_row, _SOURCES[name], seed)


def _preprocess_row(source: dict[str, Any], seed: int, row: dict[str, Any]) -> dict[str, Any]:
    """Return the question and the answer of a row of the data set that `source` describes.

    `source` is an entry of `example_data.json`. It names the columns of the question, the answer and
    the options of a multiple-choice question, which become part of the question.
    """
    question = row[source["question"]]
    answer = row[source["answer"]]
    options: Any = row.get(source.get("options", ""))
    if "shuffled" in source:
        # The right answer and the columns with wrong ones, in the same order in every run. In
        # verifiers the order differs from run to run.
        options = [answer, *(row[column] for column in source["shuffled"])]
        random.Random(f"{seed} {question}").shuffle(options)
        answer = options.index(answer)
    if options:
        lines = [f"Question: {question}\n"]
        lines += map("{}: {}".format, "ABCDEFGHIJ", options)
        question = "\n".join(lines)
        if isinstance(answer, int):  # the index of the right option
            answer = "ABCD"[answer]
    # Options that the row itself has letters for.
    labelled_options = row.get(source.get("labelled", ""))
    if labelled_options:
        lines = [f"Question: {question}\n\nChoices:"]
        lines += map("{}. {}".format, labelled_options["label"], labelled_options["text"])
        question = "\n".join(lines)
    # How to get the answer out of the text of its column.
    extract = source.get("extract")
    if extract == "int":
        answer = str(int(answer))
    elif extract:
        answer = getattr(lenient_parsers, extract)(answer)
    return {"question": question, "answer": answer}


def format_dataset(
    dataset: Any,
    system_prompt: str | None = None,
    few_shot: list[Any] | None = None,
    question_key: str = "question",
    answer_key: str = "answer",
    map_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Return a Hugging Face data set with the columns `example_id` and `prompt`.

    An `example_id` that is not a number is kept as `src_id`.
    """
    if "example_id" in dataset.column_names and not isinstance(dataset["example_id"][0], int):
        dataset = dataset.rename_column("example_id", "src_id")
    if "example_id" not in dataset.column_names:
        dataset = dataset.add_column("example_id", range(len(dataset)))
    if "prompt" in dataset.column_names:
        return dataset
    first_messages = list(few_shot or [])
    if system_prompt:
        first_messages.insert(0, {"role": "system", "content": system_prompt})

    def make_columns(row: dict[str, Any]) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "prompt": [*first_messages, {"role": "user", "content": row[question_key]}]
        }
        if answer_key != "answer":
            columns["answer"] = row[answer_key]
        return columns

    return dataset.map(make_columns, **(map_kwargs or {}))


async def maybe_await(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return await await_if_needed(func(*args, **kwargs))


def maybe_retry(
    func: Callable[..., Any],
    max_retries: int = 0,
    initial: float = 1.0,
    max_wait: float = 60.0,
    error_types: tuple[type[Exception], ...] = (InfraError, InvalidModelResponseError),
) -> Callable[..., Any]:
    """Return a function that calls `func`, and again if a state that it returns has such an error.

    Before it calls it again, it waits for `initial` seconds, and then twice as long each time.
    """

    async def call_with_retry(*args: Any, **kwargs: Any) -> Any:
        for number in range(max_retries):
            result: Any = await func(*args, **kwargs)
            states = cast("list[Any]", result if isinstance(result, list) else [result])
            if not any(isinstance(state.get("error"), error_types) for state in states):
                return cast("Any", result)
            await asyncio.sleep(min(initial * 2.0**number, max_wait))
        return await func(*args, **kwargs)

    return call_with_retry if max_retries > 0 else func


async def maybe_semaphore(limit: int | None = None) -> AbstractAsyncContextManager[Any]:
    """Return a semaphore, or a context manager that does nothing if there is no limit."""
    return asyncio.Semaphore(limit) if limit and limit > 0 else nullcontext()


async def with_sem(sem: AbstractAsyncContextManager[Any], coro: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine, which runs inside a semaphore."""
    try:
        async with sem:
            return await coro
    finally:
        # If the wait for the semaphore is cancelled, the coroutine has not been awaited.
        coro.close()


THREAD_LOCAL_STORAGE = threading.local()


def get_or_create_thread_attr(
    key: str, factory: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Return a value that belongs to the current thread; `factory` makes it at first use."""
    if getattr(THREAD_LOCAL_STORAGE, key, None) is None:
        setattr(THREAD_LOCAL_STORAGE, key, factory(*args, **kwargs))
    return getattr(THREAD_LOCAL_STORAGE, key)


def get_or_create_thread_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the current thread, which is made at first use."""
    loop = get_or_create_thread_attr("loop", asyncio.new_event_loop)
    asyncio.set_event_loop(loop)
    return loop


def ensure_keys(keys: list[str]) -> None:
    """Raise `MissingKeyError` if one of these environment variables is not set."""
    missing = [key for key in keys if not os.environ.get(key)]
    if missing:
        raise MissingKeyError(missing)


def concat_messages(messages_list: list[Any]) -> Any:
    """Return chats, messages and texts as one list, or as one text if there are only texts."""
    messages: list[Any] = []
    for item in messages_list:
        if isinstance(item, list):
            messages += cast("list[Any]", item)
        else:
            messages.append(item)
    if messages and all(isinstance(message, str) for message in messages):
        return "".join(messages)
    return messages


async def parse_response_message(response: Any, message_type: str = "chat") -> Any:
    """Return the message of a response as a list, or its text for the type "completion"."""
    choices: Any = getattr(response, "choices", None)
    message = choices[0].message if choices else to_chat_message(response.message)
    if message_type == "completion":
        return message.content or ""
    return [message]


async def parse_is_truncated(response: Any, message_type: str = "chat") -> bool:
    """Return whether a response reached the limit of tokens."""
    return response.choices[0].finish_reason == "length"


async def parse_response_tokens(response: Any, *args: Any, **kwargs: Any) -> None:
    """Return None, since no model here reports the ids of its tokens."""


def setup_logging(
    level: str | None = "INFO",
    log_format: str | None = None,
    date_format: str | None = None,
    log_file: str | None = None,
    console_logging: bool = True,
    file_logging: bool = False,
) -> None:
    """Log to the console, to a file or to both, and nowhere else. The level None turns logging off."""
    if file_logging and log_file is None:
        raise ValueError("file_logging=True needs a file: give its path as log_file=")
    _logger.handlers.clear()
    _logger.propagate = False
    if level is None:
        return
    _logger.setLevel(level.upper())
    handlers: list[logging.Handler] = []
    if console_logging:
        handlers.append(logging.StreamHandler())
    if file_logging and log_file:
        handlers.append(logging.FileHandler(log_file, encoding="utf-8"))
    formatter = logging.Formatter(
        log_format or "%(asctime)s - %(name)s - %(levelname)s - %(message)s",
        date_format or "%Y-%m-%d %H:%M:%S",
    )
    for handler in handlers:
        handler.setFormatter(formatter)
        _logger.addHandler(handler)


@contextmanager
def log_level(level: str | int) -> Generator[None]:
    """Log only messages of at least this level inside a `with` block."""
    previous_level = _logger.level
    _logger.setLevel(level.upper() if isinstance(level, str) else level)
    try:
        yield
    finally:
        _logger.setLevel(previous_level)


quiet_verifiers = partial(log_level, "WARNING")


def make_dataset(results: Any) -> Any:
    """Return the results of an evaluation as a Hugging Face data set.

    They may be ours, or a mapping with `outputs`.
    """
    if hasattr(results, "to_dataset"):
        return results.to_dataset()
    return import_module("datasets").Dataset.from_list(list(results["outputs"]))


def make_serializable(value: object) -> Any:
    """Return what to write for a value that JSON cannot represent: the `default` of `json.dumps`."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    if isinstance(value, date):
        return value.isoformat()
    return repr(value) if isinstance(value, BaseException) else str(value)


def extract_usage_tokens(response: Any) -> tuple[int, int]:
    """Return the input and output tokens that a response reports, by the names of either API."""
    usage: Any = getattr(response, "usage", None) or {}
    counts = cast("dict[str, Any]", usage if isinstance(usage, dict) else vars(usage))
    input_tokens = counts.get("prompt_tokens") or counts.get("input_tokens") or 0
    output_tokens = counts.get("completion_tokens") or counts.get("output_tokens") or 0
    return int(input_tokens), int(output_tokens)


def get_error_chain(
    error: BaseException | None, parent_type: type[BaseException] | None = None
) -> list[BaseException]:
    """Return an error and its causes, up to the first one that is not of `parent_type`."""
    if error is None or not isinstance(error, parent_type or BaseException):
        return []
    return [error, *get_error_chain(error.__cause__, parent_type)]


get_vf_error_chain = partial(get_error_chain, parent_type=Error)


class ErrorChain:
    """An error and its causes. Chains of the same types are equal, so that they can be counted."""

    def __init__(
        self, error: BaseException, build_error_chain: Callable[..., list[Any]] = get_error_chain
    ) -> None:
        self.root_error = error
        self.chain = build_error_chain(error)

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErrorChain) and str(self) == str(other)

    def __contains__(self, error_cls: type[BaseException]) -> bool:
        return any(isinstance(error, error_cls) for error in self.chain)

    def __str__(self) -> str:
        return " -> ".join(type(error).__name__ for error in self.chain)

    def __repr__(self) -> str:
        return " -> ".join(map(repr, self.chain))


def error_info(error: BaseException) -> dict[str, str]:
    """Return an error as verifiers saves it: its type, and the chain of its causes as text."""
    chain = ErrorChain(error)
    return {
        "error": type(error).__name__,
        "error_chain_repr": repr(chain),
        "error_chain_str": str(chain),
    }


def error_type_name(error: object) -> str | None:
    """Return the name of the type of an error, or of a saved one; None for anything else."""
    if isinstance(error, BaseException):
        return type(error).__name__
    if not isinstance(error, Mapping):
        return None
    name = cast("Mapping[str, object]", error).get("error")
    return name if isinstance(name, str) else None


def error_info_to_exception(
    error: Mapping[str, Any], error_types: Sequence[type[Exception]]
) -> Exception | None:
    """Return a saved error as an exception: of the first of these types that its chain names.

    It is None if the chain names none of them.
    """
    name = error.get("error")
    chain = str(error.get("error_chain_str") or name or "")
    message = str(error.get("error_chain_repr") or name or "")
    for error_type in error_types:
        if error_type.__name__ in chain:
            return error_type(message)
    return None


def print_prompt_completions_sample(
    prompts: Any,
    completions: Any,
    errors: Any,
    rewards: Sequence[float],
    step: int,
    num_samples: int = 1,
) -> None:
    """Print the first rollouts as a table of prompts, completions with errors, and rewards."""
    console = import_extra("rich.console", "a table", extra="cli")
    panel = import_extra("rich.panel", "a table", extra="cli")
    rich_table = import_extra("rich.table", "a table", extra="cli")
    table = rich_table.Table(header_style="bold white", expand=True)
    table.add_column("Prompt", style="bright_yellow")
    table.add_column("Completion", style="bright_green")
    table.add_column("Reward", style="bold cyan", justify="right")
    padded_rewards = [*rewards, *[0.0] * len(prompts)]
    rollouts = list(zip(prompts, completions, errors, padded_rewards, strict=False))
    for prompt, completion, error, reward in rollouts[:num_samples]:
        text = format_messages(completion)
        if isinstance(error, BaseException):
            text.append(f"\n\nerror: {ErrorChain(error)}", style="bold red")
        elif error is not None:
            text.append(f"\n\nerror: {error['error_chain_repr']}", style="bold red")
        table.add_row(format_messages(prompt), text, f"{reward:.2f}", end_section=True)
    console.Console().print(
        panel.Panel(table, expand=False, title=f"Step {step}", border_style="bold white")
    )
