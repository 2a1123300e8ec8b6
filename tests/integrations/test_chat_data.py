"""One rule for all trainers: one message of the assistant is a text, several messages stay messages."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from assay import Rubric, XMLParser
from assay.concurrency import run_sync as run
from assay.integrations import (
    areal_reward_of,
    as_trl_reward,
    as_trl_rewards,
    as_verifiers_reward,
    compute_score_of,
    compute_scores_of,
    custom_rm_of,
)
from assay.integrations.trainer_envs import Dialogue


def exact(completion: Any, answer: str) -> bool:
    return completion == answer


def short(completion: Any) -> bool:
    return len(completion) < 40


RUBRIC = Rubric([exact, short], weights=[1.0, 0.2], name="sums")


def reply(text: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text, **fields}]


def pay_trl(rubric: Rubric, completion: Any) -> float:
    reward = as_trl_reward(rubric, columns={"answer": "solution"})
    [paid] = reward(prompts=["2+2?"], completions=[completion], solution=["4"])
    return paid


def pay_trl_one_by_one(rubric: Rubric, completion: Any) -> float:
    rewards, weights = as_trl_rewards(rubric, columns={"answer": "solution"})
    total = 0.0
    for reward, weight in zip(rewards, weights, strict=True):
        [paid] = reward(prompts=["2+2?"], completions=[completion], solution=["4"])
        total += weight * paid
    return total


def pay_verl(rubric: Rubric, completion: Any) -> float:
    return run(compute_score_of(rubric)("sums", completion, "4"))["score"]


def pay_verl_batch(rubric: Rubric, completion: Any) -> float:
    return compute_scores_of(rubric)(["sums"], [completion], ["4"])[0]["score"]


def pay_slime(rubric: Rubric, completion: Any) -> float:
    sample = SimpleNamespace(prompt="2+2?", response=completion, label="4", metadata={})
    return run(custom_rm_of(rubric)(None, sample))


def pay_areal(rubric: Rubric, completion: Any) -> float:
    return areal_reward_of(rubric)("2+2?", completion, [], [], answer="4")


def pay_turns(rubric: Rubric, completion: Any) -> float:
    """OpenRLHF's agents and SkyRL hand over turn by turn."""
    text = completion if isinstance(completion, str) else completion[0]["content"]
    dialogue = Dialogue("2+2?", {"answer": "4"}, respond=lambda messages, row: [])
    run(dialogue.add(text))
    return run(dialogue.score(rubric)).reward or 0.0


class FakeMessage(SimpleNamespace):
    """A message of verifiers 0.4, which has the field `reasoning_content` in any case."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


def pay_verifiers(rubric: Rubric, completion: Any) -> float:
    """A rollout of verifiers 0.4, by what the adapter reads of its trace."""
    messages = [{"role": "assistant", "content": completion}]
    if not isinstance(completion, str):
        messages = completion
    nodes: list[Any] = []
    for message in messages:
        fields = {"reasoning_content": None, **message}
        sampled = message["role"] == "assistant"
        nodes.append(SimpleNamespace(message=FakeMessage(**fields), sampled=sampled))
    trace = SimpleNamespace(
        root_reply=None,
        nodes=nodes,
        branches=[SimpleNamespace(nodes=nodes)],
        last_reply=(messages[-1]["content"] or "").strip(),
        info={},
        record_metrics=lambda metrics: None,
    )
    data = SimpleNamespace(prompt_text="2+2?", model_dump=lambda: {"answer": "4"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "verifiers.v1", ModuleType("verifiers.v1"))
        return run(as_verifiers_reward(rubric)(data, trace))


TRAINERS = [
    pay_trl,
    pay_trl_one_by_one,
    pay_verl,
    pay_verl_batch,
    pay_slime,
    pay_areal,
    pay_verifiers,
    pay_turns,
]
every_trainer = pytest.mark.parametrize("pay", TRAINERS)


@every_trainer
@pytest.mark.parametrize("as_chat", [False, True])
def test_text_and_conversational_data_are_paid_the_same(pay: Any, as_chat: bool) -> None:
    """1 × 1 + 0.2 × 1 for a right answer, and 0.2 for a wrong one."""
    for text, expected in (("4", 1.2), ("5", 0.2), ("5" * 40, 0.0)):
        assert pay(RUBRIC, reply(text) if as_chat else text) == expected


def test_the_first_example_of_the_page_pays_conversational_data() -> None:
    reward = as_trl_reward(RUBRIC, columns={"answer": "solution"})
    prompts = [[{"role": "user", "content": "2+2?"}]] * 2
    completions = [reply("4"), reply("5")]
    assert reward(prompts=prompts, completions=completions, solution=["4", "4"]) == [1.2, 0.2]


CALL = {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}}
SEVERAL = [
    {"role": "assistant", "content": "I add.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "a", "content": "4"},
    {"role": "assistant", "content": "<think>It says 4.</think>4"},
]


@every_trainer
def test_several_messages_stay_messages(pay: Any) -> None:
    """And a check can ask for the text of the last one."""
    if pay is pay_turns:
        pytest.skip("it hands over one turn at a time")

    def has_three(completion: Any) -> bool:
        return completion == SEVERAL

    def right(text: str, messages: list[Any], answer: str) -> bool:
        return text == answer and messages == SEVERAL

    assert pay(Rubric([has_three, right]), SEVERAL) == 2.0


@pytest.mark.parametrize(
    "completion",
    [
        reply("", tool_calls=[CALL]),
        [{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "user", "content": "4"}],
    ],
    ids=["a call", "an image", "not the assistant"],
)
def test_what_is_more_than_a_text_stays_a_message(completion: Any) -> None:
    rubric = Rubric([lambda state: state["completion"] == completion])
    assert pay_trl(rubric, completion) == 1.0


@every_trainer
def test_messages_are_always_a_list(pay: Any) -> None:
    def one_message(messages: list[Any], text: str) -> bool:
        return messages == reply("4") and text == "4"

    assert pay(Rubric([one_message]), "4") == 1.0
    assert pay(Rubric([one_message]), reply("4")) == 1.0


@pytest.mark.parametrize("pay", [pay_trl, pay_verl, pay_slime, pay_areal, pay_verifiers])
def test_reasoning_in_a_field_is_paid_as_reasoning_in_the_text(pay: Any) -> None:
    """By text checks, format rewards and plain functions."""
    parser = XMLParser(["think", "answer"])
    in_text = "<think>\n5?\n</think>\n\n<answer>4</answer>"
    in_field = reply("<answer>4</answer>", reasoning_content="5?")

    def length(completion: Any) -> float:
        return float(len(completion))

    rubric = Rubric(
        [{"check": "exact_match"}, {"check": {"contains": "5"}}, parser.get_format_reward_func()],
        parser=parser,
    )
    rubric.add_metric(length, weight=0.01)
    assert pay(rubric, in_text) == pay(rubric, in_field) == 2.0 + 0.01 * len(in_text)
