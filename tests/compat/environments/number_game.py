"""A game keeps its secret in `info`, gives hints as the user, and ends with a last word of its own."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "Guess my number.", "info": {"secret": 7, "tries": 4}},
    {"question": "Guess my other number.", "info": {"secret": 2, "tries": 2}},
]
REPLIES = {
    "Guess my number.": ["<guess>5</guess>", "<guess>nine</guess>", "<guess>7</guess>"],
    "Guess my other number.": ["I say <guess>9</guess>", "<guess>1</guess>"],
}
OPTIONS = {"state_columns": ["won", "guesses"]}


class Game(vf.MultiTurnEnv):
    async def setup_state(self, state, **kwargs):
        state["guesses"], state["won"] = [], False
        await super().setup_state(state, **kwargs)

    async def env_response(self, messages, state, **kwargs):
        guess = self.parser.parse_answer(messages)
        state["guesses"].append(guess)
        if guess is None or not guess.isdigit():
            return [{"role": "user", "content": "That is no number."}]
        secret = state["info"]["secret"]
        if int(guess) == secret:
            state["won"] = True
            state["final_env_response"] = [{"role": "user", "content": "You win!"}]
            return []
        return [vf.UserMessage(content="higher" if int(guess) < secret else "lower")]

    @vf.stop
    async def out_of_tries(self, state) -> bool:
        return len(state["trajectory"]) > state["info"]["tries"] - 1 and not state["won"]


def solved(state, **kwargs) -> float:
    return float(state["won"])


def efficiency(state, info) -> float:
    return solved(state) * (1 - len(state["guesses"]) / (info["tries"] + 1))


def count_invalid(state) -> int:
    return sum(guess is None or not guess.isdigit() for guess in state["guesses"])


def load_environment() -> vf.Environment:
    parser = vf.XMLParser(["guess"], answer_field="guess")
    rubric = vf.Rubric(parser=parser)
    rubric.add_reward_func(solved)
    rubric.add_reward_func(efficiency, weight=0.5)
    rubric.add_reward_func(parser.get_format_reward_func(), weight=0.2)
    rubric.add_metric(count_invalid)
    return Game(
        dataset=Dataset.from_list(ROWS),
        parser=parser,
        rubric=rubric,
        system_prompt="Use <guess>.",
        max_turns=8,
    )
