"""One of two ranks of a GRPO training, on which the judge fails if it is the first; run by test_trl.py."""

import os
import sys

from conftest import make_model, make_tokenizer
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from assay import Rubric
from assay.integrations import RewardMonitor, as_trl_reward


def judged(completion):
    if os.environ["RANK"] == "0":
        raise ConnectionError("the judge is down")
    return len(completion) / 100


def short(completion):
    return len(completion) < 6


tokenizer = make_tokenizer()
reward = as_trl_reward(
    Rubric([judged, short], name="sums"),
    unscored="zero",
    monitor=RewardMonitor(warn=lambda line: None),
)
config = GRPOConfig(
    use_cpu=True,
    bf16=False,
    report_to="none",
    num_generations=4,
    per_device_train_batch_size=4,
    max_steps=2,
    max_completion_length=8,
    save_strategy="no",
    logging_steps=1,
    disable_tqdm=True,
    log_completions=True,
    output_dir=sys.argv[1],
)
trainer = GRPOTrainer(
    model=make_model(tokenizer),
    processing_class=tokenizer,
    reward_funcs=reward,
    args=config,
    train_dataset=Dataset.from_list([{"prompt": "2+2?"}, {"prompt": "3+3?"}] * 4),
)
trainer.train()
shares = [entry["sums/unscored"] for entry in trainer.state.log_history if "sums/unscored" in entry]
assert shares == [0.5, 0.5], trainer.state.log_history
