"""Games with the interface of the package textarena, small enough to be read: guess a word, letter by letter.

`make` wraps a game as that package does: the outer object hands on what it does not have itself.
"""

import copy
import threading
from types import SimpleNamespace

WORDS = ["plum", "pear", "lime", "kiwi", "date"]
GAMES = {}


def make(env_id):
    return Wrapper(GAMES[env_id]())


class Wrapper:
    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def __deepcopy__(self, memo):
        return Wrapper(copy.deepcopy(self.env, memo))

    def get_observation(self):
        player, lines = self.env.get_observation()
        return player, "".join(f"\n[GAME] {line}" for line in lines)


class Guess:
    """Four tries. `+` is a letter in its place; a guess in no brackets is told off once, and ends the game after that."""

    word_list = WORDS

    def __init__(self):
        self.dictionary = SimpleNamespace(words={*WORDS, "plug"})

    def reset(self, num_players, seed=None):
        self.lines = ["Guess a fruit of 4 letters in [brackets]."]
        self.state = SimpleNamespace(
            done=False, game_info={0: {}}, game_state={"secret_word": "none", "tries": 0}
        )

    def get_observation(self):
        return 0, self.lines

    def step(self, action):
        secret = self.state.game_state["secret_word"]
        guess = action.strip("[]")
        if action != f"[{guess}]" or guess not in self.dictionary.words:
            return (
                self._over("Invalid move")
                if "Try again." in self.lines
                else self.lines.append("Try again.")
            )
        self.state.game_state["tries"] += 1
        if guess == secret:
            return self._over(f"You found {secret}.")
        if self.state.game_state["tries"] == 4:
            return self._over(f"It was {secret}.")
        marks = "".join("+" if a == b else "-" for a, b in zip(guess, secret, strict=True))
        return self.lines.append(f"{guess}\n{marks}")

    def _over(self, reason):
        self.state.done = True
        self.state.game_info[0]["reason"] = reason


class Grouped(Guess):
    word_list = {"stone": ("plum", "date"), "pome": ["pear"], "berry": "kiwi"}  # noqa: RUF012 - as in that package


class Wordless(Guess):
    word_list = None


class Frail(Guess):
    """Raises when it is told `break`, and never returns when it is told `wait`."""

    def step(self, action):
        if action == "[break]":
            raise KeyError("the board is lost")
        if action == "[wait]":
            threading.Event().wait()
        super().step(action)


GAMES |= {"Guess-v0": Guess, "Grouped-v0": Grouped, "Wordless-v0": Wordless, "Frail-v0": Frail}
