"""The examples of seed 004, with their import lines changed; a fake stands in for the provider."""

import json

import pytest
from pydantic import ValidationError

from assay import (
    Autograder,
    Criterion,
    CriterionReport,
    EvaluationReport,
    OneShotOutput,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    PerCriterionOutput,
    Rubric,
    RubricAsJudgeGrader,
    RubricAsJudgeOutput,
)
from assay.testing import FakeModel

MARGIN = [
    {"weight": 10.0, "requirement": "States Q4 2023 base margin as 17.2%"},
    {"weight": 8.0, "requirement": "Explicitly uses Shapley attribution for decomposition"},
    {"weight": -15.0, "requirement": "Uses total deliveries instead of cash-only deliveries"},
]


async def test_quick_start():
    """Both criteria met: 15 of 15."""
    rubric = Rubric.from_dict(
        [
            {"weight": 10.0, "requirement": "Response mentions Paris"},
            {"weight": 5.0, "requirement": "Response is concise"},
        ]
    )
    grader = PerCriterionGrader(generate_fn=FakeModel("MET"))
    result = await rubric.grade("Paris is the capital of France.", autograder=grader)
    assert result.score == 1.0


async def test_custom_generate_function():
    """The function gets two prompts by name and returns a typed reply; 10 of 18 points."""
    seen = []

    async def generate_with_openai(system_prompt: str, user_prompt: str) -> PerCriterionOutput:
        seen.append((system_prompt, user_prompt))
        status = "MET" if "17.2%" in user_prompt.split("<criterion>")[1] else "UNMET"
        content = json.dumps({"criterion_status": status, "explanation": "as the text says"})
        return PerCriterionOutput.model_validate_json(content)

    grader = PerCriterionGrader(
        generate_fn=generate_with_openai,
        system_prompt="This overrides the default grader system prompt",
    )
    result = await Rubric.from_dict(MARGIN).grade(
        query="Input query...", to_grade="Output to evaluate...", autograder=grader
    )
    assert f"{result.score:.2f}" == "0.56"
    assert [line.verdict for line in result.report] == ["MET", "UNMET", "UNMET"]
    assert result.report[0].requirement == MARGIN[0]["requirement"]
    assert result.report[0].reason == "as the text says"
    assert {system for system, _ in seen} == {"This overrides the default grader system prompt"}
    assert "<query>Input query...</query>" in seen[0][1].replace("\n", "")
    assert "<response>\nOutput to evaluate...\n</response>" in seen[0][1]


async def test_thinking_and_output_are_nested_in_the_response():
    """As the XML structure says."""
    model = FakeModel("MET")
    rubric = Rubric.from_dict([{"weight": 1, "requirement": "x"}])
    await rubric.grade(
        {"thinking": "let me see", "output": "Paris"}, autograder=PerCriterionGrader(model)
    )
    [(_, prompt)] = model.calls
    assert (
        "<response>\n<thinking>let me see</thinking>\n<output>Paris</output>\n</response>" in prompt
    )


@pytest.mark.parametrize(
    ("verdicts", "score", "raw"),
    [(("UNMET", "UNMET"), 1.0, 0.0), (("MET", "MET"), 0.0, -5.0), (("MET", "UNMET"), 0.6, -2.0)],
)
async def test_all_negative_rubrics(verdicts, score, raw):
    """1 + Σ/Σ|w|: all avoided 1, all present 0."""
    rubric = Rubric.from_dict(
        [{"weight": -2.0, "requirement": "a"}, {"weight": -3.0, "requirement": "b"}]
    )
    grader = PerCriterionOneShotGrader(generate_fn=FakeModel(verdicts))
    result = await rubric.grade("x", autograder=grader)
    assert (result.score, result.raw_score) == (pytest.approx(score), raw)


async def test_one_shot_makes_one_call():
    """And scores like the other."""

    async def generate(system_prompt: str, user_prompt: str) -> OneShotOutput:
        calls.append(user_prompt)
        verdicts = ("MET", "UNMET", "UNMET")
        return OneShotOutput.model_validate(
            {
                "criteria_evaluations": [
                    {"criterion_number": n, "criterion_status": v, "explanation": ""}
                    for n, v in enumerate(verdicts, start=1)
                ]
            }
        )

    calls = []
    result = await Rubric.from_dict(MARGIN).grade(
        "x", autograder=PerCriterionOneShotGrader(generate_fn=generate)
    )
    assert (len(calls), result.score) == (1, pytest.approx(10 / 18))


async def test_raw_scores_compare_across_graders():
    """85 of 100 over 15 points is 12.75; the report has no lines then."""
    rubric = Rubric.from_dict(
        [{"weight": 10.0, "requirement": "a"}, {"weight": 5.0, "requirement": "b"}]
    )

    async def generate(system_prompt: str, user_prompt: str) -> RubricAsJudgeOutput:
        return RubricAsJudgeOutput(overall_score=85.0, explanation="")

    result = await rubric.grade("x", autograder=RubricAsJudgeGrader(generate_fn=generate))
    assert (result.score, result.raw_score, result.llm_raw_score) == (0.85, 12.75, 85.0)
    assert result.report is None


async def test_normalize_false_gives_the_raw_sum():
    """10 − 15 is −5."""
    grader = PerCriterionGrader(generate_fn=FakeModel(["MET", "UNMET", "MET"]), normalize=False)
    result = await Rubric.from_dict(MARGIN).grade("x", autograder=grader)
    assert result.score == result.raw_score == -5.0


async def test_a_custom_autograder_writes_judge_and_aggregate():
    """The generate_fn pattern is optional."""

    class Halves(Autograder):
        async def judge(self, to_grade, rubric, query=None):
            return [
                CriterionReport(
                    requirement=c.requirement, weight=c.weight, verdict="MET", reason="always"
                )
                for c in rubric
            ]

        async def aggregate(self, judge_results, *, normalize=True):
            return EvaluationReport(score=0.5, raw_score=7.0, report=judge_results)

    result = await Rubric.from_dict(MARGIN).grade("x", autograder=Halves())
    assert (result.score, result.raw_score) == (0.5, 7.0)
    assert result.report[0].verdict == "MET"


async def test_retries_live_in_the_generate_function():
    """An invalid reply raises a ValidationError, and the function may try again."""
    replies = [
        '{"criterion_status": "MAYBE", "explanation": ""}',
        '{"criterion_status": "MET", "explanation": ""}',
    ]

    async def your_llm_call(system_prompt, user_prompt):
        return replies.pop(0)

    async def generate_with_retries(
        system_prompt: str, user_prompt: str, max_retries: int = 3
    ) -> PerCriterionOutput:
        for attempt in range(max_retries):
            try:
                response = await your_llm_call(system_prompt, user_prompt)
                return PerCriterionOutput.model_validate_json(response)
            except ValidationError:
                if attempt == max_retries - 1:
                    raise
                continue
        raise AssertionError

    rubric = Rubric.from_dict([{"weight": 1, "requirement": "x"}])
    result = await rubric.grade(
        "x", autograder=PerCriterionGrader(generate_fn=generate_with_retries)
    )
    assert result.score == 1.0


def test_loading_in_every_way_gives_the_same_rubric(tmp_path):
    """Direct, dictionaries, JSON, YAML and files."""
    direct = Rubric([Criterion(**entry) for entry in MARGIN])
    as_yaml = "\n".join(
        f'- weight: {entry["weight"]}\n  requirement: "{entry["requirement"]}"' for entry in MARGIN
    )
    (tmp_path / "rubric.json").write_text(json.dumps(MARGIN))
    (tmp_path / "rubric.yaml").write_text(as_yaml)
    loaded = [
        Rubric.from_dict(MARGIN),
        Rubric.from_json(json.dumps(MARGIN)),
        Rubric.from_yaml(as_yaml),
        Rubric.from_file(str(tmp_path / "rubric.json")),
        Rubric.from_file(tmp_path / "rubric.yaml"),
    ]
    assert all(rubric.criteria == direct.criteria for rubric in loaded)
    assert {rubric.content_hash for rubric in loaded} == {direct.content_hash}
