"""Real steps of GRPOTrainer and RLOOTrainer, rewarded by rubrics."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from assay import Criterion, Rubric
from assay.integrations import RewardMonitor, as_trl_reward, as_trl_rewards
from assay.messages import completion_text

trl = pytest.importorskip("trl", reason="run by `make test-trl`, in an environment of its own")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # trainers warn of much that is not ours
]

QUESTIONS = ["2+2?", "3+3?"]


def vowels(completion):
    text = completion_text(completion)
    return sum(text.count(letter) for letter in "aeiou") / (len(text) or 1)


def knows_the_answer(completion, answer):
    return answer in completion_text(completion)


def is_down(completion):
    raise ConnectionError("the judge is down")


def trained(model, tokenizer, rewards, rows, *, trainer="GRPO", steps=2, eval_rows=None, **options):
    """A trainer after a few steps on these rows."""
    from datasets import Dataset

    config = getattr(trl, f"{trainer}Config")(
        use_cpu=True,
        bf16=False,
        report_to="none",
        num_generations=4,
        per_device_train_batch_size=4,
        max_completion_length=8,
        max_steps=steps,
        learning_rate=1e-2,
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
        **options,
    )
    made = getattr(trl, f"{trainer}Trainer")(
        model=model,
        processing_class=tokenizer,
        reward_funcs=rewards,
        args=config,
        train_dataset=Dataset.from_list(rows),
        eval_dataset=None if eval_rows is None else Dataset.from_list(eval_rows),
    )
    made.train()
    return made


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def weights_of(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def moved(model, before):
    pairs = zip(model.parameters(), before, strict=True)
    return any(not parameter.equal(old) for parameter, old in pairs)


@pytest.fixture
def text_rows():
    return [{"prompt": question, "solution": "4"} for question in QUESTIONS * 2]


def test_a_rubric_trains_a_model_on_text(model, tokenizer, text_rows, tmp_path):
    """The weights move, and the reward and every criterion are logged under the rubric's name."""
    rubric = Rubric([vowels, knows_the_answer], weights=[1.0, 0.5], name="vowels")
    before = weights_of(model)
    reward = as_trl_reward(rubric, columns={"answer": "solution"})
    trainer = trained(model, tokenizer, reward, text_rows, output_dir=str(tmp_path))
    assert len(logged(trainer, "rewards/vowels/mean")) == 2
    assert all(0 <= share <= 1 for share in logged(trainer, "vowels/vowels"))
    assert logged(trainer, "vowels/unscored") == [0, 0]
    assert moved(model, before)


def test_messages_and_rubrics_of_a_row_arrive_whole(model, tokenizer, tmp_path):
    """A chat dataset whose rows bring their own criteria: their rubric, and not ours, is asked."""
    seen = []

    def watched(completion):
        seen.append(completion)
        return 1.0

    own = {"criteria": [{"name": "long", "check": {"max_words": {"limit": 100}}}]}
    rows = [{"prompt": [{"role": "user", "content": q}]} for q in QUESTIONS]
    reward = as_trl_reward(Rubric([watched], name="chat"))
    trained(model, tokenizer, reward, rows, steps=1, output_dir=str(tmp_path / "a"))
    assert seen
    assert all(isinstance(text, str) for text in seen)  # one message arrives as its text
    seen.clear()
    rows = [{**row, "rubric": own} for row in rows]
    trainer = trained(model, tokenizer, reward, rows, steps=1, output_dir=str(tmp_path / "b"))
    assert seen == []
    assert logged(trainer, "rewards/chat/mean") == [1.0]


def test_a_judge_that_is_down_moves_nothing(model, tokenizer, text_rows, tmp_path):
    """Unscored is no advantage: the weights stay, and the share is logged."""
    rubric = Rubric([vowels, Criterion(check=is_down, name="judged")], name="broken")
    before = weights_of(model)
    trainer = trained(
        model,
        tokenizer,
        as_trl_reward(rubric),
        text_rows,
        steps=1,
        beta=0.0,
        output_dir=str(tmp_path),
    )
    assert logged(trainer, "broken/unscored") == [1.0]
    assert not moved(model, before)


def test_a_failed_eval_batch_does_not_end_the_training(model, tokenizer, text_rows, tmp_path):
    """The table of completions has columns of one length, whether or not something failed."""

    def fails_in_eval(completion, solution):
        if solution == "eval":
            raise ConnectionError("the judge is down")
        return len(completion_text(completion)) / 100

    trainer = trained(
        model,
        tokenizer,
        as_trl_reward(Rubric([fails_in_eval], name="flaky")),
        text_rows,
        eval_rows=[{"prompt": "2+2?", "solution": "eval"}],
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=4,
        log_completions=True,
        output_dir=str(tmp_path),
    )
    assert logged(trainer, "eval_flaky/unscored") == [1.0, 1.0]
    assert logged(trainer, "flaky/unscored") == [0.0, 0.0]


def test_two_ranks_log_the_same_keys_when_one_fails(tmp_path):
    """They gather key by key, so a key that one of them lacks ends the training; half of the rollouts are unscored."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, str(Path(__file__).with_name("two_ranks.py")), str(tmp_path)]
    shared = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            program,
            env=shared | {"RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    try:
        told = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], told[0][-3000:]


def test_two_rubrics_do_not_share_a_name(model, tokenizer, text_rows, tmp_path):
    """As partials of one function would."""
    rewards = [as_trl_reward(Rubric([vowels], name=name)) for name in ("first", "second")]
    trainer = trained(model, tokenizer, rewards, text_rows, steps=1, output_dir=str(tmp_path))
    assert logged(trainer, "rewards/first/mean") == logged(trainer, "rewards/second/mean")


def test_one_function_a_criterion_with_its_weight(model, tokenizer, text_rows, tmp_path):
    """For normalising each by itself."""
    rubric = Rubric([vowels, knows_the_answer], weights=[1.0, 0.5])
    rewards, weights = as_trl_rewards(rubric, columns={"answer": "solution"})
    assert weights == [1.0, 0.5]
    trainer = trained(
        model,
        tokenizer,
        rewards,
        text_rows,
        steps=1,
        reward_weights=weights,
        multi_objective_aggregation="normalize_then_sum",
        output_dir=str(tmp_path),
    )
    assert logged(trainer, "rewards/vowels/mean")
    assert logged(trainer, "rewards/knows_the_answer/mean")


def test_rloo_takes_the_same_function(model, tokenizer, text_rows, tmp_path):
    reward = as_trl_reward(Rubric([vowels], name="vowels"))
    trainer = trained(
        model,
        tokenizer,
        reward,
        text_rows,
        trainer="RLOO",
        steps=1,
        beta=0.0,
        output_dir=str(tmp_path),
    )
    assert logged(trainer, "rewards/vowels/mean")


def test_the_monitor_logs_beside_the_reward(model, tokenizer, text_rows, tmp_path):
    monitor = RewardMonitor(warn=lambda line: None)
    reward = as_trl_reward(Rubric([vowels], name="vowels"), monitor=monitor)
    trainer = trained(model, tokenizer, reward, text_rows, steps=1, output_dir=str(tmp_path))
    assert monitor.steps == 1
    assert logged(trainer, "vowels/repeated")
