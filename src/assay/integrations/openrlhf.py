"""OpenRLHF: a rubric as `reward_func` in the file that `--reward.remote_url` names.

OpenRLHF calls with lists of one, and swallows whatever the function raises: the sample then has no
reward, and the log a line at INFO. So what is unscored is also said here, at ERROR.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from assay.aggregation import Policy, UnscoredError, fallback_of
from assay.concurrency import run_sync
from assay.integrations.step import RubricSource, Step, Value, rubric_of
from assay.redaction import logger_of

logger = logger_of("assay")

RewardFunc: TypeAlias = Callable[[Sequence[str], Sequence[str], Sequence[Any]], dict[str, Any]]

END_TOKENS: Final = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "</s>", "<eos>",
)  # fmt: skip
"""Special tokens that a response may end in, since OpenRLHF decodes with them."""


def reward_func_of(
    rubric: RubricSource, *, unscored: Policy = "raise", value: Value = "reward", end_tokens: Sequence[str] = END_TOKENS
) -> RewardFunc:
    """A `reward_func(queries, prompts, labels)` for this rubric; a label is the rollout's `answer`."""
    step = Step(rubric_of(rubric), value)
    fallback = fallback_of(unscored, ("raise", "zero"), "OpenRLHF's reward_func")

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any]) -> dict[str, Any]:
        rows = [
            {"prompt": prompt, "completion": response_of(query, prompt, end_tokens), "answer": label}
            for query, prompt, label in zip(queries, prompts, labels, strict=True)
        ]
        found = run_sync(step.score(rows, list(prompts)))
        missing = [one.reward is None for one in found]
        try:
            paid = fallback.fill([one.reward for one in found], errors=[one.error for one in found])
        except UnscoredError as error:
            logger.error("%s", error)
            raise
        parts = {name: [one.parts[name] for one in found] for name in step.names}
        logs = {"unscored": [float(is_missing) for is_missing in missing]} | {
            name: column for name, column in parts.items() if None not in column
        }
        return {
            "rewards": _tensor(paid),
            "scores": _tensor(paid),
            "extra_logs": {name: _tensor(column) for name, column in logs.items()},
        }

    return reward_func


def response_of(query: str, prompt: str, end_tokens: Sequence[str] = END_TOKENS) -> str:
    """What the model wrote: the query less its prompt, and less the tokens it ends in.

    >>> response_of("Hello? Hi.<|im_end|>", "Hello?")
    'Hi.'
    """
    response = query.removeprefix(prompt).strip()
    while True:
        ending = next((token for token in end_tokens if response.endswith(token)), None)
        if ending is None:
            return response
        response = response.removesuffix(ending).rstrip()


def _tensor(values: Sequence[float | None]) -> Any:
    """A tensor where there is torch, as in OpenRLHF itself; else the list."""
    torch: Any = sys.modules.get("torch")
    return list(values) if torch is None else torch.tensor(values)
