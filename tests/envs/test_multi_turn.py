"""The model and the environment take turns."""

import asyncio

import openai
import pytest

from assay import Criterion, Rubric
from assay.envs import MultiTurnEnv, cleanup, stop, teardown
from assay.testing import Fault

SECRET = 6


class Guess(MultiTurnEnv):
    """The model guesses a number, and is told whether it is higher or lower."""

    def setup_state(self, state):
        state["low"] = state["info"].get("low", 0)

    def env_response(self, messages, state):
        guess = int(messages[-1]["content"])
        state["guesses"] = state.get("guesses", 0) + 1
        return "higher" if guess < SECRET else "lower"

    @stop
    async def found(self, state):
        steps = state["trajectory"]
        return bool(steps) and steps[-1]["completion"][-1]["content"] == str(SECRET)


def counting(messages):
    """Guesses 3, 4, 5, …: one more each time it is asked."""
    return str(3 + sum(message["role"] == "assistant" for message in messages))


def right(completion):
    return completion[-1]["content"] == str(SECRET)


ROWS = [{"question": "Guess!", "info": {"low": 1}}]


def test_a_game_goes_on_until_it_is_won(serve):
    """Four guesses, from 3 to 6, and three replies in between."""
    client = openai.OpenAI(base_url=serve(counting).url, api_key="k")
    with client:
        results = Guess(ROWS, rubric=Rubric([right])).evaluate(client, "test")
    [chat] = results["completion"]
    assert [m["content"] for m in chat] == ["3", "higher", "4", "higher", "5", "higher", "6"]
    assert [m["role"] for m in chat[:2]] == ["assistant", "user"]
    assert (results["reward"], results["num_turns"]) == ([1.0], [4.0])
    assert results["stop_condition"] == ["found"]
    [state] = results.states
    assert (state["low"], state["guesses"], state["turn"]) == (1, 3, 4)
    assert [len(step["prompt"]) for step in state["trajectory"]] == [1, 3, 5, 7]


def test_every_step_of_a_trajectory_has_its_own_reward(serve):
    """By a criterion about steps, beside the outcome and what the environment counts."""
    close = Criterion(
        check=lambda step: abs(int(step.text) - SECRET) <= 2,
        name="close",
        scope="step",
        combine="mean",
    )
    client = openai.OpenAI(base_url=serve(counting).url, api_key="k")
    with client:
        results = Guess(ROWS, rubric=Rubric([right, close])).evaluate(client, "test")
    assert results["reward"] == [1.75]
    [state] = results.states
    assert [step["reward"] for step in state["trajectory"]] == [1.0, 2.0, 2.0, 2.0]


def test_the_turns_have_a_limit(serve):
    """The last word is then the model's."""
    results = Guess(ROWS, rubric=Rubric([right]), max_turns=2).evaluate(model=serve(counting).model)
    assert [m["content"] for m in results["completion"][0]] == ["3", "higher", "4"]
    assert (results["stop_condition"], results["reward"]) == (["max_turns_reached"], [0.0])


@pytest.mark.parametrize("turns", [0, -2, 1.5])
def test_no_turns_is_no_limit(turns):
    """-1 is none."""
    with pytest.raises(ValueError, match="max_turns is"):
        Guess(ROWS, max_turns=turns)


def test_is_completed_may_be_ones_own(serve):
    """Of the messages and the state, or of the state alone, plain or async."""

    class Old(Guess):
        async def is_completed(self, messages, state, **kwargs):
            return len(messages) >= 4

    class New(Guess):
        def is_completed(self, state):
            return len(state["trajectory"]) >= 2

    for kind in (Old, New):
        results = kind(ROWS).evaluate(model=serve(counting).model)
        assert results["num_turns"] == [2.0]
        assert results["stop_condition"] == ["is_completed"]


def test_the_environment_may_have_the_last_word(serve):
    """It is part of what was said, and the model is not asked again."""

    class Polite(Guess):
        def env_response(self, messages, state):
            state["final_env_response"] = "thank you"
            return []

    server = serve(counting)
    results = Polite(ROWS).evaluate(model=server.model)
    assert [m["content"] for m in results["completion"][0]] == ["3", "thank you"]
    assert server.calls == 1
    assert results["stop_condition"] == ["has_final_env_response"]


@pytest.mark.parametrize(
    "response",
    [
        "higher",
        {"role": "user", "content": "higher"},
        ([{"role": "user", "content": "higher"}], {}),
    ],
)
def test_a_response_may_take_many_forms(serve, response):
    """A text, a message, messages; with the state, as programs used to return it."""

    class Form(Guess):
        async def env_response(self, messages, state):
            return response

    results = Form(ROWS, max_turns=2).evaluate(model=serve(counting).model)
    assert results["completion"][0][1] == {"role": "user", "content": "higher"}


def test_an_environment_that_breaks_is_an_error_of_its_rollout(serve):
    """With what was said until then; no other rollout is touched."""

    class Broken(Guess):
        def env_response(self, messages, state):
            if state["example_id"] == 0:
                raise RuntimeError("the board is gone")
            return super().env_response(messages, state)

    env = Broken(ROWS * 2, rubric=Rubric([right]))
    results = env.evaluate(model=serve(counting).model)
    assert results["reward"] == [None, 1.0]
    assert results["error"] == ["RuntimeError: the board is gone", None]
    assert [m["content"] for m in results["completion"][0]] == ["3"]


def test_a_dialogue_that_outgrows_the_model_is_scored_as_it_stands(serve):
    """From the second turn on; a first prompt that is too long leaves nothing to score."""
    too_long = Fault.refusing("This model's maximum context length is 8 tokens")
    env = Guess(ROWS, rubric=Rubric([right]))
    results = env.evaluate(model=serve(counting, faults=[None, too_long]).model)
    assert (results["reward"], results["is_truncated"]) == ([0.0], [True])
    assert results["stop_condition"] == ["prompt_too_long"]
    results = env.evaluate(model=serve(counting, faults=[too_long]).model)
    assert (results["reward"], results.metadata["num_errors"]) == ([None], 1)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8 tokens",
        "the prompt is longer than the model's context length",
        "the prompt is longer than the maximum model length of 8",
        "the prompt exceeds the model's context length",
        "input tokens exceed the configured limit of 8 tokens",
        "input length exceeds the configured limit",
        "Requested token count exceeded model capacity",
        "prompt_too_long",
        "context length",
        "maximum model length",
        "prompt is too long: 9 tokens",
        "input length and `max_tokens` exceed context limit",
        "the request exceeds context limit",
        "messages: too many total text bytes",
        "Input is too long for requested model.",
    ],
)
def test_a_prompt_that_is_too_long_is_recognised_in_the_words_of_many_endpoints(serve, message):
    env = Guess(ROWS, rubric=Rubric([right]))
    server = serve(counting, faults=[None, Fault.refusing(message)])
    assert env.evaluate(model=server.model)["stop_condition"] == ["prompt_too_long"]


async def test_a_prompt_that_is_too_long_is_recognised_by_the_code_of_the_error(serve):
    body = '{"error": {"message": "Bad request", "code": "prompt_too_long"}}'
    server = serve(counting, faults=[None, Fault("refusing", 400, body=body)])
    async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
        results = await Guess(ROWS, rubric=Rubric([right])).evaluate(client, "test")
    assert results["stop_condition"] == ["prompt_too_long"]


class Hooked(Guess):
    """Writes down what is called."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.called = []

    @property
    def expensive(self):
        raise AssertionError("a property is nobody's hook")

    @stop(priority=1)
    def never(self, state):
        self.called.append("never")
        return False

    @cleanup
    def tidy(self, state):
        self.called.append(f"tidy {state['turn']}")

    @cleanup(priority=5)
    async def first(self, state):
        self.called.append("first")
        raise OSError("nothing there")

    @teardown
    def close_board(self):
        self.called.append("close")


def test_hooks_are_called_in_order(serve, caplog):
    """Higher priorities first; one that fails is logged and keeps no other from it."""
    env = Hooked(ROWS, max_turns=1)
    env.evaluate(model=serve(counting).model)
    assert env.called == ["never", "never", "first", "tidy 1"]
    assert "cleanup first failed: OSError: nothing there" in caplog.text
    env.close()
    env.close()
    assert env.called[-1] == "close"
    assert env.called.count("close") == 1


def test_cleanup_comes_after_an_error_too(serve):
    """Whatever became of the rollout."""
    env = Hooked(ROWS)
    env.evaluate(model=serve(faults=[Fault.refusing("no")]).model)
    assert env.called[-2:] == ["first", "tidy 0"]


async def test_an_environment_is_closed_by_its_block():
    """Plain or async."""
    with Hooked(ROWS) as first:
        pass
    async with Hooked(ROWS) as second:
        pass
    assert first.called == second.called == ["close"]


async def test_cancelling_tidies_up_and_asks_no_more():
    """As Ctrl-C does."""

    class Silent:
        id = "silent"
        asked = 0
        both = asyncio.Event()

        async def __call__(self, request):
            self.asked += 1
            if self.asked == 2:
                self.both.set()
            await asyncio.Event().wait()

    env, model = Hooked(ROWS * 5), Silent()
    task = asyncio.create_task(env.evaluate(model=model, max_concurrent=2))
    await model.both.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert env.called.count("tidy 0") == 2
    assert model.asked == 2


def test_an_environment_can_be_built_off_the_main_thread():
    """It touches no signal and no loop."""
    import signal
    import threading

    before = signal.getsignal(signal.SIGINT)
    built = []
    thread = threading.Thread(target=lambda: built.append(Guess(ROWS)))
    thread.start()
    thread.join()
    assert built
    assert signal.getsignal(signal.SIGINT) is before


async def test_a_rollout_can_be_had_by_itself(serve):
    """With a client or a model, and without a score."""
    state = await Guess(ROWS).rollout(
        {"prompt": "Guess!", "info": {}}, None, serve(counting).model, {"temperature": 0.5}
    )
    assert state["completion"][-1]["content"] == "6"
    assert state["sampling_args"] == {"temperature": 0.5}
    assert state["is_completed"]
