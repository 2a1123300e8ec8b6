"""Methods of rubrics tidy up after a rollout is scored, by priority, with the arguments that they name."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 + 2?", "answer": "4", "info": {"level": 1}}]
REPLIES = {"2 + 2?": ["4"]}
OPTIONS = {"state_columns": ["order"]}


class Checking(vf.Rubric):
    def __init__(self, **kwargs):
        super().__init__(funcs=[self.right], **kwargs)
        self.add_class_object("desk", "desk 3")

    def right(self, completion, answer, state) -> float:
        state["order"] = ["scored"]
        return float(completion[-1].content == answer)

    @vf.cleanup
    async def later(self, state, info, desk):
        state["order"].append(f"later {info['level']} {desk} {state['reward']}")

    @vf.cleanup(priority=5)
    async def sooner(self, **kwargs):
        kwargs["state"]["order"].append(
            f"sooner {kwargs['answer']} {kwargs['completion'][-1].content}"
        )


class Counting(vf.Rubric):
    @vf.cleanup
    async def last(self, state):
        state["order"].append("the other rubric")


def load_environment() -> vf.Environment:
    rubric = vf.RubricGroup(rubrics=[Checking(), Counting(funcs=[lambda completion: 1.0])])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
