"""What the questions about one response share: sent alike, read once where an endpoint remembers."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from assay import GradingError, Guarded, Limits, PerCriterionGrader, Rubric, model_of
from assay.models.providers import PROVIDERS, has_prompt_cache
from assay.models.retry import Endpoint
from assay.testing import FakeModel, Fault, ModelServer

TEXT = "The outdoor unit stands two metres from the wall and hums at night. " * 90
"""About 1,500 tokens."""
SHORT = "It hums."
CRITERIA = [{"requirement": f"Says what holds in case {n}"} for n in range(10)]
LIMITS = Limits(timeout=20)


@pytest.fixture
def serve() -> Iterator[Any]:
    """Starts servers that stop when the test is over."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(ModelServer(*args, **kwargs))


class Together:
    """Answers nobody before so many calls are in, and remembers how many were in at each answer."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.waiting: list[asyncio.Event] = []
        self.answered: list[int] = []
        self.says: Callable[[str], str] = lambda user: "MET"

    async def __call__(self, system: str, user: str) -> str:
        event = asyncio.Event()
        self.waiting.append(event)
        if len(self.waiting) == self.sizes[0]:
            self.answered.append(self.sizes.pop(0))
            for held in self.waiting:
                held.set()
            self.waiting.clear()
        await event.wait()
        return self.says(user)


async def grade(server: ModelServer, text: str = TEXT, **options: Any) -> Any:
    cache, limits = options.pop("cache", None), options.pop("limits", LIMITS)
    model = model_of(server.model, limits=limits, cache=cache)
    return await Rubric(CRITERIA).grade(
        text, PerCriterionGrader(model=model, **options), "Does it?"
    )


async def test_most_of_the_tokens_repeat_an_earlier_prefix(serve: Any) -> None:
    """At ten criteria at least 80 %: the nine later calls read only their own question anew."""
    server = serve("MET")
    await grade(server)
    assert server.calls == 10
    assert server.cached_tokens >= 0.8 * server.prompt_tokens


async def test_short_texts_share_the_instructions(serve: Any) -> None:
    """Which are longer than most responses."""
    server = serve("MET")
    await grade(server, SHORT)
    assert server.cached_tokens >= 0.8 * server.prompt_tokens


async def test_all_but_the_question_is_the_same_in_every_byte(serve: Any) -> None:
    """System prompt, query and response, in this order; the criterion ends the prompt."""
    server = serve("MET")
    await grade(server)
    assert len({asked.system for asked in server.requests}) == 1
    shared = {asked.user.partition("<criterion_type>")[0] for asked in server.requests}
    assert len(shared) == 1
    [opening] = shared
    assert opening.startswith("<query>Does it?</query>\n\n[material ")
    assert TEXT in opening
    assert {asked.user.rpartition("</")[2] for asked in server.requests} == {"criterion>"}


async def test_one_call_goes_ahead_of_the_rest(serve: Any) -> None:
    """It is answered alone, and then the other nine are under way at once."""
    answer = Together(1, 9)
    await grade(serve(answer))
    assert answer.answered == [1, 9]


@pytest.mark.parametrize(
    ("text", "options"), [(TEXT, {"warm": False}), (SHORT, {})], ids=["told not to", "short"]
)
async def test_where_it_does_not_pay_all_go_at_once(serve: Any, text: str, options: Any) -> None:
    """All ten are under way before one is answered."""
    answer = Together(10)
    await grade(serve(answer), text, **options)
    assert answer.answered == [10]


async def test_on_request_a_short_text_is_sent_ahead_too(serve: Any) -> None:
    """Whatever the endpoint is thought to do."""
    answer = Together(1, 9)
    await grade(serve(answer), SHORT, warm=True)
    assert answer.answered == [1, 9]


async def test_what_a_cache_answers_warms_nothing(serve: Any, tmp_path: Path) -> None:
    """The first two are known, so the third goes ahead of the other seven."""
    answer = Together(1, 1, 1, 7)
    model = model_of(serve(answer).model, limits=LIMITS, cache=tmp_path)
    await Rubric(CRITERIA[:2]).grade(TEXT, PerCriterionGrader(model=model), "Does it?")
    answer.answered.clear()
    await Rubric(CRITERIA).grade(TEXT, PerCriterionGrader(model=model), "Does it?")
    assert answer.answered == [1, 7]


async def test_what_has_been_sent_ahead_is_not_sent_again(serve: Any) -> None:
    """The guard question opens as the rest do, so the ten that follow go at once."""
    answer = Together(1, 10)
    answer.says = lambda user: "UNMET" if "how it is judged" in user else "MET"
    model = model_of(serve(answer).model, limits=LIMITS)
    grader = Guarded(PerCriterionGrader(model=model))
    assert (await Rubric(CRITERIA).grade(TEXT, grader, "Does it?")).score == 1.0
    assert answer.answered == [1, 10]


async def test_a_call_that_fails_ahead_holds_nobody_up(serve: Any) -> None:
    """It fails alone, and the rest go at once: 9 of 10 are answered."""
    answer = Together(9)
    server = serve(answer, faults=[Fault.truncated()])
    rubric = Rubric(CRITERIA)
    model = model_of(server.model, limits=LIMITS)
    grader = PerCriterionGrader(model=model)
    [report] = await rubric.score([{"completion": TEXT, "prompt": "Does it?"}], judge=grader)
    assert report.answered == 9
    assert answer.answered == [9]


async def test_a_text_is_begun_when_its_calls_would_soon_go_out(serve: Any) -> None:
    """Of 100 texts few are begun at a time, so that the prompts of each go one after the other."""
    waiting: list[int] = []

    def answer(system: str, user: str) -> str:
        waiting.append(Endpoint.at(server.url).limiter.waiting)
        return "MET"

    server = serve(answer)
    model = model_of(server.model, limits=Limits(concurrency=4))
    rollouts = [{"completion": f"text {n}", "prompt": "Does it?"} for n in range(100)]
    reports = await Rubric(CRITERIA).score(rollouts, judge=PerCriterionGrader(model=model))
    assert [report.score for report in reports] == [1.0] * 100
    assert max(waiting) < 200


async def test_what_goes_ahead_announces_the_rest(serve: Any) -> None:
    """While the first of ten calls is made there is no room for another text: 4 times 2 are the most.

    When all are made there is room again, also where the first one failed.
    """
    had_room: list[bool] = []

    def answer(system: str, user: str) -> str:
        had_room.append(Endpoint.at(server.url).limiter.has_room)
        return "MET"

    server = serve(answer, faults=[None] * 10 + [Fault.truncated()])
    await grade(server, limits=Limits(concurrency=2))
    assert had_room[0] is False
    assert Endpoint.at(server.url).limiter.has_room
    with pytest.raises(GradingError, match="Truncated"):
        await grade(server, TEXT + "!", limits=Limits(concurrency=2))
    assert Endpoint.at(server.url).limiter.has_room


async def test_a_function_is_asked_about_all_at_once() -> None:
    """What stands behind it is not known."""
    answer = Together(10)
    await Rubric(CRITERIA).grade(TEXT, PerCriterionGrader(FakeModel(answer)))
    assert answer.answered == [10]


async def test_a_provider_that_wants_breakpoints_gets_one(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the response and before the criterion, in every call, on the same bytes."""
    server = serve("MET")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    model = model_of("anthropic/claude-test", api_key="s3cret", limits=LIMITS)
    await Rubric(CRITERIA).grade(TEXT, PerCriterionGrader(model=model), "Does it?")
    marked = []
    for asked in server.requests:
        [turn] = asked.body["messages"]
        *shared, question = turn["content"]
        assert question["text"].startswith("<criterion_type>")
        assert "cache_control" not in question
        marked += [part["text"] for part in shared if "cache_control" in part]
    assert len(marked) == 10
    assert len(set(marked)) == 1


def test_every_provider_is_known_to_remember_or_not() -> None:
    """By the id of a model; an address of one's own is taken to, and a function is not."""
    remembering = {name for name in PROVIDERS if has_prompt_cache(f"{name}/some-model")}
    assert {"openai", "anthropic"} <= remembering < set(PROVIDERS)
    assert has_prompt_cache("http://127.0.0.1:8000/v1#name")
    assert not has_prompt_cache("my.module:ask")
