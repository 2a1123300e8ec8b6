"""What commands there are. A command's module is loaded when the command is asked for."""

from typing import Final

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "init": ("init", "write a rubric and rollouts to begin with"),
    "grade": ("grade", "grade texts with a rubric"),
    "score": ("score", "score saved rollouts, or a saved run again"),
    "eval": ("eval", "ask a model the questions of a data set, and score its answers"),
    "show": ("show", "show what a saved run came to"),
    "view": ("view", "look at runs in a browser"),
    "report": ("report", "write the page of runs into one file"),
    "serve": ("serve", "serve a rubric over HTTP, as a reward for trainers"),
    "agree": ("agree", "say how far the judge of a run agrees with people"),
    "correct": ("correct", "say what a run would come to if people had judged it"),
    "compare": ("compare", "say whether one run is better than another, or it is chance"),
    "math": ("math", "say whether two mathematical answers are the same"),
    "lint": ("lint", "find what judges will stumble over in a rubric, and mend it"),
    "probe": ("probe", "attack the judge of a rubric, and count how often it is fooled"),
    "suggest": (
        "suggest",
        "draft criteria from references, or from pairs of which one is preferred",
    ),
    "rubric": ("rubric", "look at a rubric, find what is wrong with it, test it, convert it"),
    "models": ("models", "list and fetch the models that run on this machine"),
    "cache": ("cache", "look into the cache of verdicts, prune it, and move it"),
    "completion": ("completion", "make your shell complete commands and options"),
}
"""The module of a command in `assay.cli`, which has it as `command`, and its purpose in a line.

In the order that `assay --help` lists them.
"""
