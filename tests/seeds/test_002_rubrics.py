"""The examples of seed 002 that are about rubrics; environments and presets come with their parts."""

import re

from assay.compat.verifiers.parsers import XMLParser
from assay.compat.verifiers.rubrics import Rubric, RubricGroup

parser = XMLParser(["reasoning", "answer"])


def correct_answer(completion, answer, **kwargs):
    parsed = parser.parse(completion)
    return 1.0 if parsed.answer.strip() == answer.strip() else 0.0


def has_reasoning(completion, **kwargs):
    parsed = parser.parse(completion)
    return 1.0 if len(parsed.reasoning) > 20 else 0.0


def make_rubric():
    return Rubric(funcs=[correct_answer, has_reasoning], weights=[0.8, 0.2], parser=parser)


def test_scoring_a_single_output():
    """The printed 0.4 is impossible from a function that returns 0 or 1; the right dict is this."""
    score_dict = make_rubric().score_rollout_sync(
        prompt="What is 2+2?",
        completion="<reasoning>2+2=4</reasoning><answer>4</answer>",
        answer="4",
        state={},
    )
    assert score_dict == {"correct_answer": 1.0, "has_reasoning": 0.0, "reward": 0.8}


def test_batch_scoring_gives_columns():
    """Exactly what the document prints."""
    scores = make_rubric().score_rollouts(
        ["What is 2+2?", "What is 3+3?"],
        ["<answer>4</answer>", "<answer>6</answer>"],
        ["4", "6"],
        [{}, {}],
    )
    assert scores == {
        "correct_answer": [1.0, 1.0],
        "has_reasoning": [0.0, 0.0],
        "reward": [0.8, 0.8],
    }


def test_minimal_and_full_signatures():
    """A function gets just what it names."""

    def simple_check(completion):
        return 1.0 if "sorry" not in completion.lower() else 0.0

    def complex_check(prompt, completion, answer, state, task):
        return float((prompt, completion, answer, state, task) == ("q", "a", "a", {"k": 1}, "t"))

    rubric = Rubric(funcs=[simple_check, complex_check])
    scores = rubric.score_rollout_sync("q", "a", "a", {"k": 1}, "t")
    assert scores == {"simple_check": 1.0, "complex_check": 1.0, "reward": 2.0}


class MathRubric(Rubric):
    """The custom rubric of the document, its functions unchanged."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)

    def correctness_reward(self, completion, answer, **kwargs):
        parsed = self.parser.parse(completion)
        return 1.0 if parsed.answer.strip() == answer.strip() else 0.0

    def reasoning_steps_reward(self, completion, **kwargs):
        parsed = self.parser.parse(completion)
        steps = parsed.reasoning.count("\n") + 1
        return min(steps / 5.0, 1.0)

    def mathematical_accuracy_reward(self, completion, **kwargs):
        parsed = self.parser.parse(completion)
        reasoning = parsed.reasoning.lower()
        errors = 0
        if "2+2=5" in reasoning:
            errors += 1
        if "divide by zero" in reasoning:
            errors += 1
        return max(0.0, 1.0 - errors * 0.5)

    def format_reward(self, completion, **kwargs):
        return self.parser.get_format_reward_func()(completion)


def test_unbound_methods_of_the_rubrics_own_class_are_bound():
    """Peers score 0 here, since nobody supplies `self`; worked out by hand it is 0.79."""
    math_rubric = MathRubric(
        funcs=[
            MathRubric.correctness_reward,
            MathRubric.reasoning_steps_reward,
            MathRubric.mathematical_accuracy_reward,
            MathRubric.format_reward,
        ],
        weights=[0.5, 0.2, 0.2, 0.1],
        parser=XMLParser(["reasoning", "answer"]),
    )
    scores = math_rubric.score_rollout_sync(
        completion="<reasoning>one\ntwo\nand 2+2=5</reasoning>\n<answer>4</answer>", answer="4"
    )
    assert scores["correctness_reward"] == 1.0
    assert scores["reasoning_steps_reward"] == 0.6
    assert scores["mathematical_accuracy_reward"] == 0.5
    assert scores["format_reward"] == 1.0
    assert round(scores["reward"], 9) == round(0.5 + 0.2 * 0.6 + 0.2 * 0.5 + 0.1, 9)


def test_combined_rubrics_aggregate_over_all():
    """Content 0.7 + 0.3·0.4, format 1.0, style 0.5 + 0.5."""

    def reasoning_quality(completion, **kwargs):
        parsed = parser.parse(completion)
        return min((parsed.reasoning.count("\n") + 1) / 5.0, 1.0)

    def clarity_check(completion, **kwargs):
        return 1.0

    def conciseness_check(completion, **kwargs):
        return 1.0

    combined = RubricGroup(
        [
            Rubric(funcs=[correct_answer, reasoning_quality], weights=[0.7, 0.3]),
            Rubric(funcs=[parser.get_format_reward_func()], weights=[1.0]),
            Rubric(funcs=[clarity_check, conciseness_check], weights=[0.5, 0.5]),
        ]
    )
    text = "<reasoning>a\nb</reasoning>\n<answer>4</answer>"
    scores = combined.score_rollouts(["q"], [text], ["4"], [{}])
    assert [round(r, 9) for r in scores["reward"]] == [round(0.7 + 0.3 * 0.4 + 1.0 + 1.0, 9)]
    assert set(scores) >= {"correct_answer", "reasoning_quality", "clarity_check", "reward"}


def test_context_aware_evaluation_reads_the_state():
    """Half credit when the follow-up does not mention what was said before."""

    def context_aware_reward(completion, prompt, state, **kwargs):
        if "previous" in state:
            if state["previous"] not in completion:
                return 0.5
        return 1.0

    rubric = Rubric(funcs=[context_aware_reward])
    assert rubric.score_rollout_sync(completion="so 5", state={"previous": "4"})["reward"] == 0.5
    assert rubric.score_rollout_sync(completion="4 + 1", state={"previous": "4"})["reward"] == 1.0


def test_an_adaptive_rubric_keeps_its_own_history():
    """A method may read what the rubric holds."""

    class AdaptiveRubric(Rubric):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.performance_history = []

        def base_reward_func(self, completion, **kwargs):
            return 1.0 if re.search("4", completion) else 0.5

        def adaptive_reward(self, completion, **kwargs):
            base_reward = self.base_reward_func(completion, **kwargs)
            if len(self.performance_history) > 10:
                avg_performance = sum(self.performance_history[-10:]) / 10
                if avg_performance < 0.5:
                    return min(1.0, base_reward * 1.2)
            return base_reward

    rubric = AdaptiveRubric(funcs=[AdaptiveRubric.adaptive_reward])
    assert rubric.score_rollout_sync(completion="5")["reward"] == 0.5
    rubric.performance_history = [0.1] * 11
    assert rubric.score_rollout_sync(completion="5")["reward"] == 0.6
