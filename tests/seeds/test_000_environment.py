"""The example of seed 000 that uses a group of rubrics in an environment."""

import assay.compat.verifiers as vf
from assay.testing import ModelServer


def correctness_check(completion, answer, **kwargs):
    return 1.0 if completion == answer else 0.0


def length_penalty(completion, **kwargs):
    # Penalize very long completions
    return -0.1 if len(completion) > 1000 else 0.0


def make_env(my_dataset):
    # Create separate rubrics
    correctness_rubric = vf.Rubric(funcs=[correctness_check], weights=[1.0])

    quality_rubric = vf.Rubric(funcs=[length_penalty], weights=[0.5])

    # Combine into a group
    rubric_group = vf.RubricGroup(rubrics=[correctness_rubric, quality_rubric])

    # Use in an environment
    return vf.SingleTurnEnv(dataset=my_dataset, rubric=rubric_group)


def test_a_group_scores_what_an_environment_asks():
    """1 for a right answer, and half of −0.1 off for a long one."""
    env = make_env([{"prompt": "2+2?", "answer": "4"}, {"prompt": "A long one?", "answer": ""}])
    with ModelServer(lambda system, user: "4" if "2+2" in user else "x" * 1001) as server:
        results = env.evaluate(model=server.model)
    assert results["reward"] == [1.0, -0.05]
    assert results["metrics"][1] == {
        "correctness_check": 0.0,
        "length_penalty": -0.1,
        "num_turns": 1.0,
    }
