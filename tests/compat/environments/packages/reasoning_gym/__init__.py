"""Data sets with the interface of the package reasoning_gym, small enough to be read."""

import threading
from random import Random

from reasoning_gym import composite, utils  # noqa: F401 - found as attributes in that package too
from reasoning_gym.dataset import ProceduralDataset


class Sums(ProceduralDataset):
    """An answer that is one off is worth half. `?` is an error, and `...` is never scored."""

    name = "sums"

    def __getitem__(self, number):
        draw = Random(self.seed + number)
        one, other = draw.randint(1, self.config.get("most", 9)), draw.randint(1, 9)
        return self.entry(f"{one}+{other}", str(one + other))

    def score_answer(self, answer, entry):
        if answer == "...":
            threading.Event().wait()
        if answer == "?":
            raise ValueError("no number")
        if not answer.isdigit():
            return 0.0
        return {0: 1.0, 1: 0.5}.get(abs(int(answer) - int(entry["answer"])), 0.0)


class Reversals(ProceduralDataset):
    name = "reversals"

    def __getitem__(self, number):
        word = "".join(Random(self.seed + number).choices("abc", k=3))
        return self.entry(f"Turn {word} round", word[::-1])


class Composite(ProceduralDataset):
    """A question of each data set in turn, as often as its weight says."""

    def __getitem__(self, number):
        specs = [spec for spec in self.config["datasets"] for _ in range(int(spec.weight))]
        spec = specs[number % len(specs)]
        return create_dataset(spec.name, self.size, self.seed, **spec.config)[number]

    def score_answer(self, answer, entry):
        return KINDS[entry["metadata"]["source_dataset"]](1, 0, {}).score_answer(answer, entry)


KINDS = {"sums": Sums, "reversals": Reversals, "composite": Composite}


def create_dataset(name, size, seed, **config):
    return KINDS[name](size, seed, config)
