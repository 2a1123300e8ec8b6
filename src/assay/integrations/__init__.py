"""A rubric where trainers and test runners want it, with the same numbers everywhere.

step        Step: what a trainer wants rewarded at once
trl         as_trl_reward, as_trl_rewards: also for ms-swift, axolotl and Unsloth
verl        compute_score, compute_score_of, compute_scores_of
openrlhf    reward_func_of
slime       custom_rm_of
skyrl       as_skyrl_env
verifiers   as_verifiers_reward, as_verifiers_judge, for verifiers 0.4
monitor     RewardMonitor: signs that a model learns to please its reward
grading     assert_grades: for tests of any runner
pytest_plugin  the `grades` fixture and `--assay-fail-under`

The names load when first used; none of the trainers is imported.
"""

from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.integrations.grading import assert_grades as assert_grades
    from assay.integrations.monitor import Alarms as Alarms
    from assay.integrations.monitor import RewardMonitor as RewardMonitor
    from assay.integrations.openrlhf import reward_func_of as reward_func_of
    from assay.integrations.skyrl import as_skyrl_env as as_skyrl_env
    from assay.integrations.slime import custom_rm_of as custom_rm_of
    from assay.integrations.trl import as_trl_reward as as_trl_reward
    from assay.integrations.trl import as_trl_rewards as as_trl_rewards
    from assay.integrations.verifiers import as_verifiers_judge as as_verifiers_judge
    from assay.integrations.verifiers import as_verifiers_reward as as_verifiers_reward
    from assay.integrations.verl import compute_score_of as compute_score_of
    from assay.integrations.verl import compute_scores_of as compute_scores_of

_HOMES = {
    "grading": ("assert_grades",),
    "monitor": ("Alarms", "RewardMonitor"),
    "openrlhf": ("reward_func_of",),
    "skyrl": ("as_skyrl_env",),
    "slime": ("custom_rm_of",),
    "trl": ("as_trl_reward", "as_trl_rewards"),
    "verifiers": ("as_verifiers_judge", "as_verifiers_reward"),
    "verl": ("compute_score_of", "compute_scores_of"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Alarms",
    "RewardMonitor",
    "as_skyrl_env",
    "as_trl_reward",
    "as_trl_rewards",
    "as_verifiers_judge",
    "as_verifiers_reward",
    "assert_grades",
    "compute_score_of",
    "compute_scores_of",
    "custom_rm_of",
    "reward_func_of",
]

__getattr__ = lazily(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
