"""A rollout ends when the model has written its tokens; what a tool of the environment spent counts too."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Count on.", "answer": "3"}, {"question": "Count much.", "answer": "2"}]
REPLIES = {"Count on.": ["one", "two", "three", "four"], "Count much.": ["one " * 40, "two"]}
OPTIONS = {"state_columns": ["told", "seen"]}


class Counting(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["told"] = self.get_state_usage(state) is None
        self.increment_state_usage(state, output_tokens=1000)

    async def env_response(self, messages, state):
        self.increment_state_usage(state, input_tokens=5)
        return [vf.UserMessage(content="and?")]

    @vf.cleanup
    async def keep_usage(self, state):
        usage = self.get_state_usage(state)
        own = sum(step["response"].usage.completion_tokens for step in state["trajectory"])
        sent = sum(step["response"].usage.prompt_tokens for step in state["trajectory"])
        turns = len(state["trajectory"])
        state["seen"] = [
            usage["output_tokens"] == 1000 + own,
            usage["input_tokens"] == sent + 5 * (turns - 1),
        ]


def turns(state, answer) -> float:
    return float(len(state["trajectory"]))


def load_environment() -> vf.Environment:
    env = Counting(dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[turns]), max_turns=4)
    env.set_kwargs(max_total_completion_tokens=1010, remark="kept")
    assert env.max_total_completion_tokens == 1010
    assert env.remark == "kept"
    return env
