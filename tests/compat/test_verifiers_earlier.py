"""Programs that were written for `verifiers` before 0.1.11 find what they used there."""

import assay.compat.verifiers as vf
from assay.testing import ModelServer


def env_of(question, **given):
    def right(completion, answer, task):
        return float(completion[-1].content == answer and task == "words")

    return vf.SingleTurnEnv(dataset=[{"question": question, "answer": "4"}], rubric=vf.Rubric(funcs=[right]), **given)


async def test_the_task_of_an_example_is_the_way_to_its_environment():
    """And the name that functions get; an input that names no environment of the group fails alone."""
    group = vf.EnvGroup([env_of("2 + 2?"), env_of("Four?")], env_names=["sums", "words"])
    assert group.get_dataset()["task"] == ["sums", "words"]
    assert (group.get_env_for_task("words"), group.get_env_for_task("other")) == (group.envs[1], group.envs[0])
    inputs = [
        {"prompt": [{"role": "user", "content": "?"}], "answer": "4", "task": task, "example_id": place}
        for place, task in enumerate(["words", "sums", "other"])
    ]
    with ModelServer("4") as server:
        outputs = (await group.generate(inputs, model=server.model))["outputs"]
    assert [output["reward"] for output in outputs] == [1.0, 0.0, 0.0]
    assert [bool(output["error"]) for output in outputs] == [False, False, True]
    assert "use sums, words" in outputs[2]["error"]["error_chain_repr"]
    assert group.rubric.all_reward_names == ["num_turns", "right"]
