"""Episodes of a gym, in the older and the newer form of `step`; an action that cannot be read ends the episode."""

import verifiers as vf
from verifiers.envs.experimental.gym_env import EpisodicSumRubric, GymEnv

REPLIES = {
    "pos 3": ["right", "up", "down"],
    "pos 4": ["right", "jump", "stay"],
    "pos 5": ["right", "right", "right", "right"],
    "pos 6": ["right", "left", "right"],
}
OPTIONS = {"state_columns": ["gym_done", "closed", "steps"]}


class Line:
    """A walk to 2 or to 7."""

    def __init__(self, newer=True):
        self.newer = newer

    def reset(self, seed=None):
        self.position = seed
        return (seed, {"seed": seed}) if self.newer else seed

    def step(self, action):
        self.position += action
        reward = 1.0 if self.position == 7 else -0.25
        over = self.position in (2, 7)
        info = {"at": self.position}
        return (
            (self.position, reward, over, False, info)
            if self.newer
            else (self.position, reward, over, info)
        )


class Closing(Line):
    def close(self):
        self.position = None


def move(text):
    return {"left": -1, "right": 1}[text]


class Walk(GymEnv):
    def obs_to_text(self, obs):
        return f"pos {obs}"

    @vf.cleanup(priority=10)
    async def look(self, state):
        state["steps"] = [
            [step["reward"], step["extras"].get("gym_info")] for step in state["trajectory"]
        ]

    @vf.cleanup(priority=-10)
    async def look_again(self, state):
        state["closed"] = "gym_env" not in state


def load_environment() -> vf.Environment:
    given = {"action_parser": move, "num_eval_episodes": 2, "max_episode_steps": 3}
    newer = Walk(Closing, num_train_episodes=1, seed=2, **given)
    older = Walk(
        Line,
        env_kwargs={"newer": False},
        num_train_episodes=0,
        seed=5,
        rubric=EpisodicSumRubric(2.0),
        **given,
    )
    return vf.EnvGroup([newer, older], env_names=["newer", "older"])
