"""Programs that use the environments of `verifiers` run with the import line changed."""

import asyncio

import datasets
import openai
import pytest
from assay.compat.verifiers.decorators import stop
from assay.compat.verifiers.envs.singleturn_env import SingleTurnEnv
from assay.compat.verifiers.utils import data_utils

import assay.compat.verifiers as vf
from assay import envs
from assay.testing import ModelServer, tool_call

ROWS = [{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 3?", "answer": "6"}]


def exact(completion, answer, **kwargs):
    return 1.0 if completion[-1]["content"] == answer else 0.0


def make_env(**options):
    return vf.SingleTurnEnv(
        dataset=datasets.Dataset.from_list(ROWS),
        system_prompt="Add.",
        parser=vf.Parser(),
        rubric=vf.Rubric(funcs=[exact], weights=[1.0]),
        **options,
    )


async def test_an_evaluation_as_it_is_written_there():
    """Outputs and metadata, awaited."""
    with ModelServer("4") as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
            results = await make_env().evaluate(
                client,
                "test",
                sampling_args={"temperature": 0.0, "max_tokens": 16},
                num_examples=2,
                rollouts_per_example=2,
                max_concurrent=-1,
                save_results=False,
                independent_scoring=True,
                max_retries=3,
            )
    assert [output["reward"] for output in results["outputs"]] == [1.0, 1.0, 0.0, 0.0]
    assert results["metadata"]["avg_reward"] == 0.5
    assert results["metadata"]["rollouts_per_example"] == 2
    assert isinstance(results, vf.GenerateOutputs)


def test_a_script_runs_it_by_asyncio():
    """Or by the twin."""
    env = make_env()
    with ModelServer("6") as server:
        client = openai.AsyncOpenAI(base_url=server.url, api_key="k")
        assert asyncio.run(env.evaluate(client=client, model="test"))["reward"] == [0.0, 1.0]
        assert env.evaluate_sync(client=client, model="test")["reward"] == [0.0, 1.0]
        inputs = env.get_dataset(n=1)
        assert env.generate_sync(inputs, client, "test")["reward"] == [0.0]


def test_its_keywords_are_taken():
    """What is of no use is passed over, what is unknown becomes an attribute, as there."""
    env = make_env(message_type="chat", max_workers=64, env_id="sums", map_kwargs={}, board=[1])
    assert (env.env_id, env.board) == ("sums", [1])
    assert not hasattr(env, "max_workers")
    assert make_env(message_type="completion").keeps_text


def test_results_are_kept_and_gone_on_with(tmp_path):
    """By the path that they are told."""
    with ModelServer("4") as server:
        for _ in range(2):
            results = make_env().evaluate(model=server.model, results_path=tmp_path)
    assert server.calls == 2
    assert results["reward"] == [1.0, 0.0]
    with pytest.raises(ValueError, match="push_to_hf_hub is not there"):
        make_env().evaluate(model=server.model, push_to_hf_hub=True)


class Guess(vf.MultiTurnEnv):
    """A game as it is written there."""

    def __init__(self, secret, **kwargs):
        super().__init__(**kwargs)
        self.secret = secret

    async def setup_state(self, state: vf.State) -> vf.State:
        state["tries"] = 0
        return state

    async def env_response(self, messages: vf.Messages, state: vf.State, **kwargs) -> vf.Messages:
        state["tries"] += 1
        return [{"role": "user", "content": "no"}]

    @vf.stop
    async def won(self, state: vf.State) -> bool:
        steps = state["trajectory"]
        return bool(steps) and steps[-1]["completion"][-1]["content"] == self.secret

    @vf.cleanup
    async def tidy(self, state: vf.State):
        state["tidy"] = True


def test_a_game_runs():
    """With its hooks."""

    def counting(messages):
        return str(len(messages))

    env = Guess("5", dataset=[{"question": "Guess!"}], max_turns=9)
    with ModelServer(counting) as server:
        results = env.evaluate(model=server.model)
    [state] = results["state"]
    assert (state["tries"], state["tidy"], state["stop_condition"]) == (2, True, "won")
    assert results["num_turns"] == [3.0]
    assert stop is vf.stop


def test_tools_run():
    """With their own words for what goes wrong."""

    def half(n: int) -> float:
        """Halve a number."""
        if n % 2:
            raise ValueError("it is odd")
        return n / 2

    env = vf.ToolEnv(dataset=[{"question": "?"}], tools=[half], error_formatter=lambda e: f"sorry, {e}")
    turns = [[tool_call("half", n=4), tool_call("half", n=3)], "done"]
    with ModelServer(lambda messages: turns[len(messages) > 1]) as server:
        results = env.evaluate(model=server.model)
    said = [m["content"] for m in results["completion"][0] if m["role"] == "tool"]
    assert said == ["2.0", "sorry, it is odd"]
    assert results["half_calls"] == [2.0]


def test_the_classes_stand_to_each_other_as_there():
    """And are ours."""
    assert SingleTurnEnv is vf.SingleTurnEnv
    assert issubclass(vf.SingleTurnEnv, vf.MultiTurnEnv)
    assert issubclass(vf.ToolEnv, vf.MultiTurnEnv)
    assert issubclass(vf.MultiTurnEnv, vf.Environment)
    assert issubclass(vf.MultiTurnEnv, envs.MultiTurnEnv)


def test_example_data_comes_with_questions_and_answers(monkeypatch):
    """From wherever `datasets` has it."""
    rows = [{"question": f"{n}?", "answer": f"so\n#### {n}"} for n in range(5)]
    asked = []

    def load_dataset(path, subset, split):
        asked.append((path, subset, split))
        return datasets.Dataset.from_list(rows)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    dataset = data_utils.load_example_dataset("gsm8k", split="train", n=2)
    assert asked == [("openai/gsm8k", "main", "train")]
    assert dataset.column_names == ["question", "answer"]
    assert all(row["question"] == f"{row['answer']}?" for row in dataset)
    with pytest.raises(ValueError, match=r"'nothing' is no example that we know: use gsm8k"):
        vf.load_example_dataset("nothing")
