"""Games of textarena about a word: won, lost, and ended by a wrong move; feedback of its own, and a subclass's rows."""

import verifiers as vf
from verifiers.envs.integrations.textarena_env import TextArenaEnv

TRIES = {
    "[stone]": ["plum", "date", "lime", "kiwi"],
    "[open]": ["kiwi", "fig", "plug", "pear", "lime"],
    "[wrong]": ["melon", "fig"],
}
OPTIONS = {"state_columns": ["answer", "looked"]}


def replies(messages):
    turn = sum(message["role"] == "assistant" for message in messages)
    asked = " ".join(message["content"] for message in messages if message["role"] == "user")
    words = next(words for name, words in TRIES.items() if name in asked)
    return (
        f"<guess>[{words[turn]}]</guess>" if turn else f"I try.\n<guess>\n[{words[turn]}]\n</guess>"
    )


def latest(observation):
    return observation.split("[GAME]")[-1].strip()


def found(parser, completion, answer) -> float:
    return float(parser.parse_answer(completion) == f"[{answer}]")


def greens(parser, completion) -> float:
    said = parser.get_user_messages(completion)
    return max(message["content"].count("+") for message in said) / 4


class Named(TextArenaEnv):
    """Says in the question which game it is, and looks at the state before and after the game is gone."""

    def ta_to_hf(self):
        dataset, eval_dataset = super().ta_to_hf()
        named = [{**row, "question": f"{self.name} {row['question']}"} for row in dataset]
        return self.to_rows(named), eval_dataset

    def to_rows(self, rows):
        return __import__("datasets").Dataset.from_list(rows)

    async def setup_state(self, state):
        await super().setup_state(state)
        state["looked"] = [state["ta_env"].state.game_state["secret_word"], "ta_env" in state]
        assert state["ta_env"].dictionary is self.ta_env.dictionary
        assert state["ta_env"].state is not self.ta_env.state

    @vf.cleanup(priority=-10)
    async def look_again(self, state):
        state["looked"].append("ta_env" in state)


class OfStones(Named):
    name = "[stone]"


class Open(Named):
    name = "[open]"


class Wrong(Named):
    name = "[wrong]"


def load_environment() -> vf.Environment:
    parser = vf.XMLParser(fields=["guess"], answer_field="guess")
    rubric = vf.Rubric(parser=parser, funcs=[found, greens], weights=[1.0, 0.5])
    given = {
        "feedback_fn": latest,
        "parser": parser,
        "rubric": rubric,
        "system_prompt": "Play.",
        "max_turns": 5,
    }
    envs = [
        OfStones("Grouped-v0", num_train_examples=6, seed=3, **given),
        Open("Guess-v0", num_train_examples=4, seed=1, **given),
        Wrong("Guess-v0", num_train_examples=1, **given),
    ]
    return vf.EnvGroup(envs, env_names=["stone", "open", "wrong"])
