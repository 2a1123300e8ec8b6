"""Questions that reasoning_gym makes up and scores: one data set, and a mixture with a prompt and a parser of its own."""

import verifiers as vf
from verifiers.envs.integrations.reasoninggym_env import ReasoningGymEnv

OPTIONS = {"state_columns": ["answer", "info"]}


def replies(messages):
    question = messages[-1]["content"]
    if "+" not in question:
        return rf"So \boxed{{{question.split()[1][::-1]}}}"
    off = len(messages) % 2
    total = sum(map(int, question.split("+"))) + off
    return rf"\boxed{{{total}}}" if off else f"<answer>\n{total}\n</answer>"


def load_environment() -> vf.Environment:
    one = ReasoningGymEnv("sums", num_train_examples=2, num_eval_examples=4, seed=2)
    mixed = [{"name": "sums", "weight": 2, "config": {"most": 3}}, "reversals"]
    boxed = vf.Parser(extract_fn=vf.extract_boxed_answer)
    other = vf.ReasoningGymEnv(mixed, 1, 6, system_prompt=None, parser=boxed, seed=7)
    assert [row["answer"] for row in other.get_dataset()] == ["0"]
    return vf.EnvGroup([one, other], env_names=["one", "other"])
