"""Which model is called if none is named."""

from typing import Any

import pytest

from assay import GradingError, JudgeError, PerCriterionGrader, Refused, Rubric, RubricAsJudgeGrader
from assay.models import configure, default_judge, price_of
from assay.models.providers import PROVIDERS
from assay.testing import FakeModel

# The model that is proposed for each variable of a key.
PROPOSALS = {
    provider.key_variable: f"{provider.name}/{provider.proposed_model}"
    for provider in PROVIDERS.values()
    if provider.proposed_model
}
RUBRIC = Rubric.from_dict([{"requirement": "Holds"}])


@pytest.mark.parametrize("variable", PROPOSALS)
async def test_a_key_alone_does_not_choose_a_model(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The error names the variable to set, and a model for the key that was found."""
    with pytest.raises(Refused, match=r"set ASSAY_JUDGE to .*openai/.*http:.*local"):
        default_judge()
    monkeypatch.setenv(variable, "k")
    with pytest.raises(
        Refused, match=f"{variable} is set, so set ASSAY_JUDGE={PROPOSALS[variable]} "
    ):
        default_judge()
    with pytest.raises(GradingError, match=f"so set ASSAY_JUDGE={PROPOSALS[variable]} "):
        await RUBRIC.grade("x", judge=PerCriterionGrader())


def test_the_models_that_are_proposed_have_a_price() -> None:
    """A user who follows the advice can set a budget."""
    assert all(price_of(*name.split("/")) for name in PROPOSALS.values())


async def test_a_grader_without_a_model_uses_the_default() -> None:
    """It is looked up at each call."""
    grader = PerCriterionGrader()
    configure(judge=FakeModel("MET"))
    assert (await RUBRIC.grade("x", judge=grader)).score == 1.0
    configure(judge=FakeModel("UNMET"))
    assert (await RUBRIC.grade("x", judge=grader)).score == 0.0
    configure(judge=FakeModel(85))
    assert (await RUBRIC.grade("x", judge=RubricAsJudgeGrader())).score == 0.85


async def test_the_environment_names_the_default_model(
    serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """It is always the same object. With ASSAY_CACHE it has a cache."""
    server = serve("MET")
    monkeypatch.setenv("ASSAY_JUDGE", server.model)
    assert default_judge() is default_judge()
    for _ in range(2):
        assert (await RUBRIC.grade("x", judge=PerCriterionGrader())).score == 1.0
    assert server.calls == 2
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    for _ in range(2):
        assert (await RUBRIC.grade("x", judge=PerCriterionGrader())).score == 1.0
    assert server.calls == 3


async def test_configure_takes_precedence_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`configure(judge=None)` goes back to the environment."""
    monkeypatch.setenv("ASSAY_JUDGE", "http://127.0.0.1:1/v1#environment")
    configure(judge="http://127.0.0.1:1/v1#configured")
    assert default_judge().id.endswith("#configured")
    configure(judge=None)
    assert default_judge().id.endswith("#environment")


def test_two_models_for_one_grader_are_refused() -> None:
    """It would be unclear which one is called."""
    with pytest.raises(JudgeError, match="both generate_fn= and model="):
        PerCriterionGrader(FakeModel("MET"), model=FakeModel("MET"))
