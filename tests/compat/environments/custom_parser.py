"""A parser of its own reads the last line."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "Colour of grass?", "answer": "green"},
    {"question": "Colour of snow?", "answer": "white"},
]
REPLIES = {"Colour of grass?": ["I think:\ngreen"], "Colour of snow?": ["white\nor grey"]}


class LastLine(vf.Parser):
    def parse(self, text: str) -> str:
        self.logger.debug("reading %s", text)
        return self.extract_fn(text.strip().splitlines()[-1])

    def get_format_reward_func(self):
        def two_lines(completion, **kwargs) -> float:
            said = self.get_assistant_messages(completion)
            return float(len(said[-1]["content"].splitlines()) == 2)

        return two_lines


def load_environment() -> vf.Environment:
    parser = LastLine(extract_fn=str.lower)

    def right(completion, answer, parser) -> float:
        return float(parser.parse_answer(completion) == answer)

    rubric = vf.Rubric(
        funcs=[right, parser.get_format_reward_func()], weights=[1.0, 0.5], parser=parser
    )
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), parser=parser, rubric=rubric)
