"""A rubric where trainers and test runners want it, with the same numbers everywhere.

step              Step: what a trainer wants rewarded at once
trl               as_trl_reward, as_trl_rewards: also for ms-swift, axolotl and Unsloth
verl              compute_score, compute_score_of, compute_scores_of
reward_functions  reward_func_of for OpenRLHF, custom_rm_of for slime
trainer_envs      as_skyrl_env; as_verifiers_reward and as_verifiers_judge, for verifiers 0.4
monitor           RewardMonitor: signs that a model learns to please its reward
grading           assert_grades: for tests of any runner
pytest_plugin     the `grades` fixture and `--assay-fail-under`

The names load when first used; none of the trainers is imported.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
