"""Every example of seed 003, with its import line changed."""

import inspect
from concurrent.futures import Executor

import pytest

import assay as vf
from assay import MaybeThinkParser
from assay.parsers import extract_boxed_answer


def state_of(prompt, content, answer):
    return {
        "prompt": prompt,
        "completion": [{"role": "assistant", "content": content}],
        "answer": answer,
        "task": "math",
        "timing": {"scoring_ms": 0, "total_ms": 0},
    }


def half_and_third():
    content = "The answer is \\boxed{\\frac{5}{6}}"
    return state_of("What is 1/2 + 1/3?", content, "\\frac{5}{6}")


def test_the_constructor_has_the_documented_arguments_and_defaults():
    """In this order, before any of ours."""
    parameters = list(inspect.signature(vf.MathRubric).parameters.values())[:5]
    assert [(p.name, p.default) for p in parameters] == [
        ("funcs", None),
        ("weights", None),
        ("parser", None),
        ("max_workers", 50),
        ("timeout_seconds", 5),
    ]


def test_the_documented_attributes_are_there():
    """The parser reads the box, the hard limit is two minutes, the executor runs functions."""
    rubric = vf.MathRubric()
    assert (type(rubric.parser), rubric.parser.extract_fn) == (
        MaybeThinkParser,
        extract_boxed_answer,
    )
    assert rubric.HARD_TIMEOUT_SECONDS == vf.MathRubric.HARD_TIMEOUT_SECONDS == 120
    assert isinstance(rubric.executor, Executor)
    assert (rubric.max_workers, rubric.timeout_seconds) == (50, 5)
    assert (rubric.weights, len(rubric.funcs)) == ([1.0], 1)


async def test_correct_answer_can_be_called_by_hand():
    """An async method, with the names of the document, that gives a float."""
    rubric = vf.MathRubric()
    completion = [{"role": "assistant", "content": "\\boxed{4}"}]
    right = await rubric.correct_answer(rubric.parser, completion, "4", state={}, task="math")
    wrong = await rubric.correct_answer(parser=rubric.parser, completion=completion, answer="5")
    assert (right, type(right), wrong) == (1.0, float, 0.0)


async def test_basic_math_verification_pays_for_an_answer_without_a_box():
    """`x = 4` is 4."""
    rubric = vf.MathRubric()
    state = state_of("Solve for x: 2x + 5 = 13", "x = 4", "4")
    await rubric.score_rollout(state)
    assert state["reward"] == 1.0


async def test_a_custom_parser_for_boxed_answers():
    """Equivalent fractions."""
    rubric = vf.MathRubric(parser=MaybeThinkParser(extract_fn=extract_boxed_answer))
    state = half_and_third()
    await rubric.score_rollout(state)
    assert state["reward"] == 1.0


async def test_additional_metrics_are_reported_and_not_paid():
    """The text has 33 characters in one line."""
    rubric = vf.MathRubric()

    def response_length(completion, **kwargs):
        text = completion[-1]["content"] if isinstance(completion, list) else completion
        return len(text)

    rubric.add_metric(response_length, weight=0.0)

    def step_count(completion, **kwargs):
        text = completion[-1]["content"] if isinstance(completion, list) else completion
        return text.count("\n") + 1

    rubric.add_metric(step_count, weight=0.0)

    state = half_and_third()
    await rubric.score_rollout(state)
    assert state["metrics"] == {"correct_answer": 1.0, "response_length": 33.0, "step_count": 1.0}
    assert state["reward"] == 1.0


@pytest.mark.parametrize(
    "settings",
    [{"timeout_seconds": 2.0, "max_workers": 100}, {"timeout_seconds": 30.0, "max_workers": 10}],
)
async def test_custom_timeout_settings(settings):
    """Both of the document's."""
    rubric = vf.MathRubric(**settings)
    state = half_and_third()
    await rubric.score_rollout(state)
    assert state["reward"] == 1.0
    assert (rubric.timeout_seconds, rubric.max_workers) == (
        settings["timeout_seconds"],
        settings["max_workers"],
    )


async def test_combining_with_an_async_reward_function():
    """1.0 · correct + 0.2 · shows_reasoning."""
    rubric = vf.MathRubric()

    async def shows_reasoning(completion, parser, **kwargs):
        """Reward explanations before the answer."""
        text = completion[-1]["content"] if isinstance(completion, list) else completion
        answer = parser.parse_answer(completion) or ""  # noqa: F841
        # Check if there's text before the boxed answer
        boxed_idx = text.find("\\boxed")
        if boxed_idx > 50:  # At least 50 chars of explanation
            return 1.0
        return 0.0

    rubric.add_reward_func(shows_reasoning, weight=0.2)

    explained = state_of("What is 2+2?", "Two and two make four. " * 3 + "\\boxed{4}", "4")
    await rubric.score_rollout(explained)
    assert explained["reward"] == 1.2
    short = state_of("What is 2+2?", "\\boxed{4}", "4")
    await rubric.score_rollout(short)
    assert short["reward"] == 1.0
    assert short["metrics"] == {"correct_answer": 1.0, "shows_reasoning": 0.0}


async def test_edge_cases():
    """Empty responses get 0; an algebraically equivalent one gets 1."""
    rubric = vf.MathRubric()
    empty = state_of("What is 2+2?", "", "4")
    await rubric.score_rollout(empty)
    assert empty["reward"] == 0.0
    assert "errors" not in empty
    equivalent = state_of("Simplify.", "\\boxed{2x + 6}", "2(x + 3)")
    await rubric.score_rollout(equivalent)
    assert equivalent["reward"] == 1.0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("2x + 6", "2(x + 3)"),
        ("0.333...", "1/3"),
        ("0.3333333333", "1/3"),
        ("(x+1)^2", "x^2 + 2x + 1"),
        ("\\sin^2(x) + \\cos^2(x)", "1"),
        ("sin^2(x) + cos^2(x)", "1"),
    ],
    ids=["symbolic", "numerical", "many places", "algebraic", "trigonometric", "without LaTeX"],
)
async def test_the_four_kinds_of_equivalence(answer, gold):
    """Either way round."""
    rubric = vf.MathRubric()
    for content, right in [(f"\\boxed{{{answer}}}", gold), (f"\\boxed{{{gold}}}", answer)]:
        state = state_of("Is it so?", content, right)
        await rubric.score_rollout(state)
        assert state["reward"] == 1.0


@pytest.mark.parametrize(
    "content", ["", "   ", "\\boxed{}", "I do not know.", "\\boxed{\\frac{1}{}"]
)
async def test_empty_or_unparsable_responses_get_nothing(content):
    """And that is no error: the model wrote it."""
    rubric = vf.MathRubric()
    state = state_of("What is 2+2?", content, "4")
    await rubric.score_rollout(state)
    assert state["reward"] == 0.0
    assert state["metrics"] == {"correct_answer": 0.0}


async def test_functions_and_weights_come_before_correct_answer():
    """0.5 · 1.0 + 1.0 · 1.0."""

    def is_short(completion):
        return 1.0

    rubric = vf.MathRubric(funcs=[is_short], weights=[0.5])
    assert rubric.get_reward_func_names() == ["is_short", "correct_answer"]
    assert rubric.weights == [0.5, 1.0]
    state = state_of("What is 2+2?", "\\boxed{4}", "4")
    await rubric.score_rollout(state)
    assert state["reward"] == 1.5
