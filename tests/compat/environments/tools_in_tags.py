"""Tools are called in tags, and their results come back as words of the user."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "6 * 7?", "answer": "42"}, {"question": "1 / 0?", "answer": "none"}]
REPLIES = {
    "6 * 7?": ["<think>a</think><tool>6 * 7</tool>", "<think>b</think><answer>42</answer>"],
    "1 / 0?": [
        "<think>a</think><tool>1 / 0</tool>",
        "<think>b</think>",
        "<think>c</think><answer>none</answer>",
    ],
}
RESULTS = {"6 * 7": "42", "1 / 0": "Error: division by zero"}


class Tagged(vf.MultiTurnEnv):
    def __init__(self, **kwargs):
        self.parser = vf.XMLParser(["think", ("tool", "answer")])
        self.env_parser = vf.XMLParser(["result"])
        super().__init__(parser=self.parser, **kwargs)

    async def env_response(self, messages, state, **kwargs):
        parsed = self.parser.parse(messages[-1]["content"])
        if parsed.tool:
            return [vf.UserMessage(content=self.env_parser.format(result=RESULTS[parsed.tool]))]
        return [vf.UserMessage(content="Call a tool or answer.")]

    @vf.stop
    async def answered(self, state) -> bool:
        steps = state["trajectory"]
        return bool(steps) and bool(
            self.parser.parse(steps[-1]["completion"][-1]["content"]).answer
        )


def load_environment() -> vf.Environment:
    environment = Tagged(dataset=Dataset.from_list(ROWS), max_turns=5)

    def right(completion, answer) -> float:
        return float(environment.parser.parse_answer(completion) == answer)

    def no_errors(completion) -> float:
        users = environment.parser.get_user_messages(completion)
        return float(not any("Error:" in message["content"] for message in users))

    environment.rubric = vf.Rubric(
        funcs=[right, no_errors], weights=[1.0, 0.2], parser=environment.parser
    )
    return environment
