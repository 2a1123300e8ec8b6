"""The judge of seed 002, in both of its forms, with the real `openai` client and a real server."""

import openai
import pytest

from assay.compat.verifiers.parsers import XMLParser
from assay.compat.verifiers.rubrics import JudgeRubric, Rubric, RubricGroup
from assay.testing import Fault, ModelServer


@pytest.fixture(params=[openai.OpenAI, openai.AsyncOpenAI], ids=["sync", "async"])
def openai_client(request):
    """Makes the client that people pass in, and closes it."""
    made = []

    def make(server):
        made.append(request.param(api_key="s3cret", base_url=server.url))
        return made[-1]

    yield make
    for client in made:
        if request.param is openai.OpenAI:
            client.close()


def judge_of(openai_client):
    """As the document has it, to the letter."""
    return JudgeRubric(
        judge_models=["gpt-4"],
        client=openai_client,
        template="""Evaluate this response for clarity and correctness.

Question: {prompt}
Answer: {completion}
Expected: {answer}

Score from 0-10:""",
        parser=XMLParser(["score", "feedback"]),
    )


def by_words(system, user):
    """Full marks for Paris, two for anything else."""
    score = 10 if "Paris" in user.partition("Answer:")[2].partition("Expected:")[0] else 2
    return f"<score>{score}</score>\n<feedback>as the words say</feedback>"


def test_a_judge_by_template(openai_client):
    """Single outputs and batches, as in the rest of the document; each call is one the judge got."""
    with ModelServer(by_words) as server:
        judge_rubric = judge_of(openai_client(server))
        assert judge_rubric.score_rollout_sync(
            prompt="What is the capital of France?", completion="Paris", answer="Paris", state={}
        ) == {"judge_score": 1.0, "reward": 1.0}
        scores = judge_rubric.score_rollouts(
            ["Capital of France?", "Capital of Italy?"],
            ["Paris", "Milan"],
            ["Paris", "Rome"],
            [{}, {}],
        )
        assert scores == {"judge_score": [1.0, 0.2], "reward": [1.0, 0.2]}
        assert (server.calls, server.requests[0].body["model"]) == (3, "gpt-4")
    words = server.requests[0].user
    assert words.startswith("Evaluate this response for clarity and correctness.\n\nQuestion: What")
    assert words.endswith("\nExpected: Paris\n\nScore from 0-10:")
    assert "\nParis\n" in words


async def test_a_judge_by_template_scores_states(openai_client):
    """Written into the state as any other reward."""
    with ModelServer(by_words) as server:
        judge_rubric = judge_of(openai_client(server))
        state = {
            "prompt": [{"role": "user", "content": "Capital of France?"}],
            "completion": [{"role": "assistant", "content": "Paris"}],
            "answer": "Paris",
        }
        report = await judge_rubric.score_rollout(state)
        assert (state["reward"], state["metrics"]) == (1.0, {"judge_score": 1.0})
        assert report.report[0].reason == "as the words say"


def test_a_judge_that_is_down_is_no_zero(openai_client):
    """None in the batch, and the others keep their score."""

    def down_for_milan(system, user):
        return "it is late" if "Milan" in user else by_words(system, user)

    with ModelServer(down_for_milan) as server:
        scores = judge_of(openai_client(server)).score_rollouts(
            ["France?", "Italy?"], ["Paris", "Milan"], ["Paris", "Rome"]
        )
        assert scores["judge_score"] == [1.0, None]
    refusing = ModelServer(faults=lambda call: Fault.refusing("wrong key", 401))
    with refusing as server:
        scores = judge_of(openai_client(server)).score_rollouts(["France?"], ["Paris"], ["Paris"])
        assert scores["judge_score"] == [None]


def test_a_judge_adds_to_other_rubrics(openai_client):
    """0.7 · 1 + 0.3 · 1 by code, and 1.0 by the judge."""

    def correct_answer(completion, answer, **kwargs):
        return 1.0 if completion == answer else 0.0

    def is_short(completion, **kwargs):
        return 1.0

    with ModelServer(by_words) as server:
        combined = RubricGroup(
            [
                Rubric(funcs=[correct_answer, is_short], weights=[0.7, 0.3]),
                judge_of(openai_client(server)),
            ]
        )
        scores = combined.score_rollouts(["France?"], ["Paris"], ["Paris"], [{}])
        assert scores["reward"] == [2.0]
        assert scores["judge_score"] == [1.0]


async def test_a_judge_by_prompt(openai_client):
    """`{question} {answer} {response}`, and functions that ask it; one call for both of them."""
    with ModelServer(lambda system, user: "yes" if "said Paris" in user else "no") as server:
        judge_rubric = JudgeRubric(
            judge_client=openai_client(server),
            judge_model="gpt-4.1-nano",
            judge_prompt="Asked {question}, it said {response}. Is that {answer}? {{yes}} or {{no}}",
            judge_sampling_args={"temperature": 0.0, "max_tokens": 10, "seed": None},
            parser=XMLParser(["answer"]),
            hardened=False,  # so that the words stand in one line
        )

        async def correct_answer(judge, prompt, completion, answer, state, **kwargs):
            judge_response = await judge(prompt, completion, answer, state, **kwargs)
            return 1.0 if "yes" in judge_response.lower() else 0.0

        async def is_unsure(judge, prompt, completion, answer, state):
            return 0.0 if await judge(prompt, completion, answer, state) in ("yes", "no") else 1.0

        judge_rubric.add_reward_func(correct_answer, weight=1.0)
        judge_rubric.add_reward_func(is_unsure, weight=-0.5)
        states = [
            {
                "prompt": "Capital of France?",
                "completion": f"<answer>{city}</answer>",
                "answer": "Paris",
            }
            for city in ("Paris", "Lyon")
        ]
        await judge_rubric.score_group(states)
        assert [state["reward"] for state in states] == [1.0, 0.0]
        assert [state["advantage"] for state in states] == [0.5, -0.5]
        assert server.calls == 2
        assert {asked.user for asked in server.requests} == {
            "Asked Capital of France?, it said Paris. Is that Paris? {yes} or {no}",
            "Asked Capital of France?, it said Lyon. Is that Paris? {yes} or {no}",
        }
        assert server.requests[0].body["max_tokens"] == 10
