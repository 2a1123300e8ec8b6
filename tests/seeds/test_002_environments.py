"""The examples of seed 002 under "Rubric Integration with Environments"."""

import openai
import pytest

import assay.compat.verifiers as vf
from assay.compat.verifiers.parsers import XMLParser
from assay.compat.verifiers.rubrics import Rubric
from assay.testing import ModelServer

parser = XMLParser(["reasoning", "answer"])
dataset = [{"question": f"What is {n}+{n}?", "answer": str(2 * n)} for n in range(5)]


class MathRubric(Rubric):
    """Custom rubric for mathematical reasoning tasks."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)

    def correctness_reward(self, completion, answer, **kwargs):
        """Check if the final answer is correct."""
        parsed = self.parser.parse(completion)
        return 1.0 if parsed.answer.strip() == answer.strip() else 0.0

    def reasoning_steps_reward(self, completion, **kwargs):
        """Reward for showing step-by-step reasoning."""
        parsed = self.parser.parse(completion)
        steps = parsed.reasoning.count("\n") + 1
        return min(steps / 5.0, 1.0)  # Up to 5 steps = full score

    def format_reward(self, completion, **kwargs):
        """Reward for proper formatting."""
        return self.parser.get_format_reward_func()(completion)


def answered(system, user):
    """Two lines of reasoning and the right sum, which for 4+4 is left out."""
    number = int(user.removeprefix("What is ").split("+")[0])
    answer = "" if number == 4 else f"<answer>{2 * number}</answer>"
    return f"<reasoning>first\nthen</reasoning>{answer}"


@pytest.fixture
def openai_client():
    with ModelServer(answered) as server:
        with openai.OpenAI(base_url=server.url, api_key="k") as client:
            client.server = server
            yield client


@pytest.fixture
def vf_env():
    custom_rubric = MathRubric(
        funcs=[
            MathRubric.correctness_reward,
            MathRubric.reasoning_steps_reward,
            MathRubric.format_reward,
        ],
        weights=[0.5, 0.4, 0.1],
    )
    # Create environment with custom rubric
    return vf.SingleTurnEnv(dataset=dataset, parser=parser, rubric=custom_rubric)


def test_evaluate_model_performance(vf_env, openai_client):
    """0.5 for the answer, 0.4 × 2/5 for two steps, 0.1 for the format; without an answer 0.16 and a part."""
    # Evaluate model performance
    results = vf_env.evaluate(client=openai_client, model="gpt-4", num_examples=100)
    assert results["correctness_reward"] == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert results["reasoning_steps_reward"] == [0.4] * 5
    assert results["reward"][:4] == [pytest.approx(0.76)] * 4
    assert 0.16 < results["reward"][4] < 0.26
    assert openai_client.server.requests[0].body["model"] == "gpt-4"


def test_generate_training_data_with_rewards(vf_env, openai_client):
    """Twenty rollouts of five questions are four of each."""
    # Generate training data with rewards
    results = vf_env.generate(client=openai_client, model="gpt-4", n_samples=20)
    assert len(results["completion"]) == len(results["reward"]) == 20
    assert [results["answer"].count(str(2 * n)) for n in range(5)] == [4] * 5
    assert openai_client.server.calls == 20


def test_the_rubric_reads_with_the_parser_of_its_environment(vf_env):
    """It was given none, and would find nothing with a plain one."""
    assert vf_env.rubric.parser is parser
