"""An environment asks a model about its examples and scores what it says."""

import asyncio
import json
import sys
import weakref
from datetime import UTC, datetime

import anthropic
import numpy
import openai
import pytest

from assay import (
    BudgetExceeded,
    Criterion,
    Limits,
    PerCriterionGrader,
    Price,
    Rubric,
    RubricError,
    model_of,
)
from assay.envs import Environment, MultiTurnEnv, Results, SingleTurnEnv, cleanup
from assay.models import Reply, budget
from assay.runs import RunRefused
from assay.testing import FakeModel, Fault, ModelServer

REWARDS = [1.0] * 7 + [0.0]
"""All sums of the questions but 7 + 1 are answered rightly."""


@pytest.fixture
def env(questions, rubric):
    return SingleTurnEnv(questions, rubric=rubric)


class TestWhoIsAsked:
    """Clients of SDKs, names, models, functions."""

    def test_a_sync_client_from_sync_code(self, env, server):
        """As the guide has it: no await anywhere."""
        with openai.OpenAI(base_url=server.url, api_key="k") as client:
            results = env.evaluate(client=client, model="test", num_examples=8)
        assert results["reward"] == REWARDS
        assert server.calls == 8

    def test_an_async_client_from_sync_code(self, env, server):
        """Twice, for the second time has a loop of its own."""
        client = openai.AsyncOpenAI(base_url=server.url, api_key="k")
        assert env.evaluate(client, "test")["reward"] == REWARDS
        assert env.evaluate_sync(client, "test")["reward"] == REWARDS

    async def test_an_async_client_from_async_code(self, env, server):
        """Awaited."""
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
            results = await env.evaluate(client, "test")
        assert results["reward"] == REWARDS

    async def test_a_client_of_anthropic(self, env, serve):
        """By its own protocol."""
        server = serve(
            lambda messages: str(sum(map(int, messages[-1]["content"][0]["text"][0:5:4])))
        )
        url = server.url.removesuffix("/v1")
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            results = await env.evaluate(client, "test", num_examples=2)
        assert results["reward"] == [1.0, 1.0]
        assert "system" not in server.requests[0].body

    def test_a_name_without_a_client(self, env, server):
        """An address, for one."""
        assert env.evaluate(model=server.model)["reward"] == REWARDS

    def test_a_model_that_is_made_already(self, env, server):
        """With whatever was said about it."""
        model = model_of(server.model, limits=Limits(concurrency=1))
        assert env.evaluate(model=model)["reward"] == REWARDS
        assert server.most_at_once == 1

    def test_a_model_of_ones_own(self, env):
        """An id and one async function."""

        class Parrot:
            id = "parrot"

            async def __call__(self, request):
                return Reply(request.user)

        results = env.evaluate(model=Parrot(), num_examples=1)
        assert results["completion"] == [[{"role": "assistant", "content": "0 + 1?"}]]
        assert results.metadata["model"] == "parrot"

    def test_nobody(self, env):
        """Is said at once."""
        with pytest.raises(Exception, match="no model is named: give model="):
            env.evaluate()


class TestHowItIsCalled:
    """From synchronous and asynchronous code, by one name."""

    async def test_read_without_await_it_is_worked_out_on_the_spot(self, env, server):
        """As in a cell of a notebook, where a loop runs and nobody thinks of it."""
        results = env.evaluate(model=server.model)
        assert "await" in repr(results)
        assert results["reward"] == REWARDS
        assert await results is await results

    async def test_a_client_that_is_in_use_here_is_not_used_elsewhere(self, env, serve):
        """One evaluation is awaited, the next is read without: each has connections of its own loop."""
        server = serve(latency=0.005)
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
            assert (await env.evaluate(client, "test"))["reward"] == REWARDS
            assert env.evaluate(client, "test")["reward"] == REWARDS
            assert env.evaluate_sync(client, "test")["reward"] == REWARDS
            assert (await env.evaluate(client, "test"))["reward"] == REWARDS

    async def test_a_client_with_a_transport_of_its_own_stays_in_its_loop(self, env, server):
        """Nobody can make another like it."""
        transport = openai.DefaultAsyncHttpxClient()
        async with openai.AsyncOpenAI(
            base_url=server.url, api_key="k", http_client=transport
        ) as client:
            assert (await env.evaluate(client, "test"))["reward"] == REWARDS
            with pytest.raises(Exception, match="in use by another event loop: await"):
                env.evaluate_sync(client, "test")

    async def test_the_sync_twins_work_in_a_running_loop(self, env, server):
        """And give plain results."""
        results = env.evaluate_sync(model=server.model, num_examples=2)
        assert type(results) is Results
        generated = env.generate_sync(model=server.model, n_samples=2)
        assert results["reward"] == generated["reward"] == [1.0, 1.0]

    def test_asyncio_takes_it_for_a_coroutine(self, env, server):
        """As programs do that know it as one."""
        assert asyncio.run(env.evaluate(model=server.model))["reward"] == REWARDS

    async def test_two_can_be_gathered(self, env, server):
        """Or made tasks."""
        task = asyncio.create_task(env.evaluate(model=server.model, num_examples=1))
        two = await asyncio.gather(
            env.evaluate(model=server.model), env.generate(model=server.model, n_samples=3)
        )
        assert [len(results.outputs) for results in (*two, await task)] == [8, 3, 1]

    def test_what_is_wrong_with_the_call_is_said(self, env, server):
        """With what was meant."""
        with pytest.raises(TypeError, match="'max_concurent': did you mean 'max_concurrent'"):
            env.evaluate(model=server.model, max_concurent=3)
        with pytest.raises(ValueError, match="rollouts_per_example is 0"):
            env.evaluate(model=server.model, rollouts_per_example=0)
        with pytest.raises(ValueError, match="num_examples is 0"):
            env.evaluate(model=server.model, num_examples=0)
        with pytest.raises(ValueError, match="resume continues a run: name its folder"):
            env.evaluate(model=server.model, resume=True)
        assert server.requests == []

    async def test_what_goes_wrong_is_raised_to_whoever_awaits(self, env, server):
        """Not before."""
        pending = env.evaluate(model=server.model, num_examples=0)
        with pytest.raises(ValueError, match="num_examples"):
            await pending


class TestWhatIsSent:
    """Messages as they are, and settings as they were given."""

    def test_messages_go_out_one_by_one(self, rubric, server):
        """Two of one role are two messages; what a grader would join is not joined."""
        chat = [{"role": "user", "content": "1 +"}, {"role": "user", "content": "2?"}]
        SingleTurnEnv([{"prompt": chat}], system_prompt="Add.", rubric=rubric).evaluate(
            model=server.model
        )
        system = {"role": "system", "content": "Add."}
        assert server.requests[0].body == {"messages": [system, *chat], "model": "test"}

    def test_settings_are_passed_on(self, questions, rubric, server):
        """Those of the call go before those of the environment."""
        env = SingleTurnEnv(questions, sampling_args={"temperature": 0.2, "top_p": 0.9})
        settings = {"temperature": 0.7, "max_tokens": 9, "stop": ["x"], "seed": 3, "n": 1}
        more = {"extra_body": {"top_k": 5}, "logit_bias": None}
        results = env.evaluate(model=server.model, num_examples=1, sampling_args=settings | more)
        body = dict(server.requests[0].body)
        assert body.pop("messages") == questions_asked(questions[:1])
        assert body == {
            "model": "test",
            "temperature": 0.7,
            "max_tokens": 9,
            "stop": ["x"],
            "seed": 3,
            "top_p": 0.9,
            "top_k": 5,
        }
        assert results.metadata["sampling_args"]["temperature"] == 0.7

    def test_a_client_gets_them_too(self, env, server):
        """In its own way."""
        with openai.OpenAI(base_url=server.url, api_key="k") as client:
            args = {"top_p": 0.5, "extra_body": {"top_k": 5}, "max_tokens": 7}
            env.evaluate(client, "test", num_examples=1, sampling_args=args)
        body = server.requests[0].body
        assert (body["top_p"], body["top_k"], body["max_tokens"]) == (0.5, 5, 7)

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            ({"n": 4}, "n=4: give rollouts_per_example"),
            ({"stream": True}, "stream=True: leave it out"),
            ({"messages": []}, "'messages', which the environment gives"),
            ({"timeout": 5}, "'timeout', which is for a client of your own"),
        ],
    )
    def test_what_the_environment_sees_to_is_refused(self, env, server, args, message):
        """With what to do instead."""
        with pytest.raises(Exception, match=message):
            env.evaluate(model=server.model, sampling_args=args)
        assert server.requests == []

    def test_a_model_that_is_made_takes_no_more_settings(self, env, server):
        """Than a request has."""
        model = model_of(server.model)
        with pytest.raises(Exception, match=r"top_p, but .* exists already"):
            env.evaluate(model=model, sampling_args={"top_p": 0.5})
        env.evaluate(model=model, num_examples=1, sampling_args={"temperature": 0.5})
        assert server.requests[0].body["temperature"] == 0.5

    def test_no_more_go_at_once_than_said(self, env, serve):
        """And that many do, from the start."""
        server = serve(latency=0.02)
        env.evaluate(model=server.model, max_concurrent=3, rollouts_per_example=2)
        assert server.most_at_once == 3

    def test_an_example_that_comes_twice_is_asked_twice(self, rubric, server):
        """Though the questions be equal and under way at the same time."""
        env = SingleTurnEnv([{"question": "1 + 1?", "answer": "2"}] * 2, rubric=rubric)
        env.evaluate(model=server.model, rollouts_per_example=3)
        assert server.calls == 6


def questions_asked(questions):
    return [{"role": "user", "content": row["question"]} for row in questions]


class TestWhatComesBack:
    """Results, by column and by rollout."""

    def test_columns(self, env, server):
        """Those of the data set, what the model said, rewards and every metric by its name."""
        results = env.evaluate(model=server.model, num_examples=2)
        assert results["prompt"] == [questions_asked([q]) for q in env.dataset[:2]]
        assert results["completion"][1] == [{"role": "assistant", "content": "2"}]
        assert results["answer"] == ["1", "2"]
        assert results["question"] == ["0 + 1?", "1 + 1?"]
        assert results["metrics"] == [{"exact": 1.0}, {"exact": 1.0}]
        assert results["exact"] == [1.0, 1.0]
        assert results["error"] == [None, None]
        assert [state["reward"] for state in results["state"]] == [1.0, 1.0]
        assert results["outputs"] is results.outputs
        with pytest.raises(KeyError, match=r"no column 'rewards': use .*reward"):
            results["rewards"]

    def test_outputs_and_metadata(self, env, server):
        """One dict a rollout, and what was run."""
        results = env.evaluate(model=server.model)
        first = results.outputs[0]
        assert (first["example_id"], first["sample"], first["reward"]) == (0, 0, 1.0)
        assert (first["model"], first["stop_condition"]) == ("test-2026-01-01", "max_turns_reached")
        assert first["token_usage"]["input_tokens"] == server.prompt_tokens / 8
        about = results.metadata
        assert (about["num_examples"], about["num_rollouts"], about["num_errors"]) == (8, 8, 0)
        assert about["avg_reward"] == about["avg_metrics"]["exact"] == 7 / 8
        assert about["usage"]["output_tokens"] == server.completion_tokens
        assert about["base_url"] == server.url
        assert datetime.fromisoformat(about["date"]).tzinfo == UTC
        assert results.summary().reward.mean == 7 / 8

    def test_text_in_text_out(self, server):
        """So that a check may compare as if there were no chats."""
        env = SingleTurnEnv(
            [{"prompt": "2 + 2?", "answer": "4"}],
            rubric=Rubric(
                [lambda prompt, completion, answer: (prompt, completion) == ("2 + 2?", answer)]
            ),
        )
        results = env.evaluate(model=server.model)
        assert (results["completion"], results["reward"]) == (["4"], [1.0])

    def test_checks_see_columns_info_and_state(self, server):
        """By name."""

        def sees(difficulty, info, task, state, prompt, sample):
            return (difficulty, info["k"], task, state["turn"], sample) == (3, 1, "sums", 1, 0)

        row = {"question": "1 + 1?", "difficulty": 3, "info": {"k": 1}, "task": "sums"}
        env = SingleTurnEnv([row], rubric=Rubric([sees]))
        assert env.evaluate(model=server.model)["reward"] == [1.0]

    def test_a_rollout_changes_its_own_example_only(self, server):
        """What one leaves in the info is not there for the next."""

        def marks(info):
            info.setdefault("seen", []).append(1)
            return len(info["seen"])

        env = SingleTurnEnv([{"question": "1 + 1?", "info": {}}], rubric=Rubric([marks]))
        for _ in range(2):
            results = env.evaluate(model=server.model, rollouts_per_example=2)
            assert results["reward"] == [1.0, 1.0]
        assert results["info"] == [{}, {}]

    def test_fields_of_the_state_can_be_kept(self, env, server):
        """By name."""
        results = env.evaluate(model=server.model, num_examples=1, state_columns=["turn"])
        assert results["turn"] == [1]

    def test_as_a_data_set_and_as_a_frame(self, env, server):
        """A row a rollout; mappings are JSON text."""
        results = env.evaluate(model=server.model)
        dataset, frame = results.to_dataset(), results.to_pandas()
        assert dataset["reward"] == list(frame["reward"]) == REWARDS
        assert list(frame["exact.value"]) == [output["exact"] for output in results.outputs]
        assert "metrics" not in frame.columns
        assert json.loads(dataset["metrics"][0]) == {"exact": 1.0}
        again = SingleTurnEnv(dataset.select_columns(["prompt", "answer", "info"]))
        assert again.dataset[0]["prompt"] == env.dataset[0]["prompt"]

    def test_what_is_not_installed_is_named(self, env, server, monkeypatch):
        """With what to install."""
        monkeypatch.setitem(sys.modules, "datasets", None)
        results = env.evaluate(model=server.model, num_examples=1)
        with pytest.raises(ImportError, match="pip install datasets"):
            results.to_dataset()

    def test_without_a_rubric_there_is_no_reward(self, questions, server):
        """Rather than a zero."""
        results = SingleTurnEnv(questions).evaluate(model=server.model, num_examples=1)
        assert (results["reward"], results.metadata["avg_reward"]) == ([None], None)

    def test_a_reply_that_was_cut_off_is_scored_as_it_stands(self, questions, rubric, serve):
        """And marked."""
        server = serve(faults=[Fault.truncated("1")])
        results = SingleTurnEnv(questions, rubric=rubric).evaluate(
            model=server.model, num_examples=1
        )
        assert (results["is_truncated"], results["reward"]) == ([True], [1.0])

    def test_nothing_to_ask_is_no_error(self, rubric, server):
        """An empty data set has empty results."""
        results = SingleTurnEnv([], rubric=rubric).evaluate(model=server.model)
        assert results.outputs == []
        assert results.metadata["avg_reward"] is None

    def test_arrays_of_a_data_set_have_no_truth_and_need_none(self, server):
        """Whether an environment changed what was asked is found without it."""

        class Drawing(SingleTurnEnv):
            async def setup_state(self, state):
                state["info"] = {"drawn": numpy.arange(3)}
                return state

        rows = [
            {"question": f"{n} + 1?", "answer": numpy.arange(3), "info": {"drawn": numpy.arange(2)}}
            for n in (1, 2)
        ]
        env = Drawing(rows, rubric=Rubric([lambda answer, info: len(answer) == len(info["drawn"])]))
        results = env.evaluate(model=f"{server.url}#m")
        assert results["reward"] == [1.0, 1.0]
        assert [len(info["drawn"]) for info in results["info"]] == [3, 3]

    @pytest.mark.parametrize("spoiled", ["responses", "info"])
    def test_what_one_state_holds_is_no_other_rollouts_affair(self, spoiled, server):
        """Replies that are none are an error of that rollout; an `info` that holds itself is scored as any other."""

        class Spoiling(SingleTurnEnv):
            @cleanup
            async def spoil(self, state):
                if state["answer"] == "2":
                    state[spoiled] = {"me": state["info"]} if spoiled == "info" else 7
                    state["info"]["me"] = state["info"]

        rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in (1, 2, 3)]
        results = Spoiling(rows, rubric=Rubric([lambda: 1.0])).evaluate(model=f"{server.url}#m")
        assert results["reward"] == [1.0 if spoiled == "info" else None, 1.0, 1.0]
        assert [bool(error) for error in results["error"]] == [spoiled == "responses", False, False]


class TestWhatIsHeld:
    """What an evaluation keeps in memory."""

    def test_rows_are_let_go_of_when_their_group_is_scored(self, server, rubric):
        """However many rollouts there are, only the rows of those under way are alive."""
        rows, alive, questions = (
            [],
            [],
            [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(8, 68)],
        )

        def count(row):
            rows.append(weakref.ref(row))
            alive.append(sum(row() is not None for row in rows))

        env = SingleTurnEnv(questions, rubric=rubric)
        results = env.evaluate(
            model=f"{server.url}#m", max_concurrent=2, rollouts_per_example=2, on_row=count
        )
        assert results["reward"] == [1.0] * 120
        assert len(alive) == 120
        assert max(alive) <= 8

    def test_a_column_is_the_same_list_each_time(self, env, server):
        """A program may sort or change it in place."""
        results = env.evaluate(model=f"{server.url}#m")
        assert results["reward"] is results["reward"]
        assert results.columns["state"] is results.states
        assert set(results.columns) == set(results)


class TestWhatGoesWrong:
    """Errors are errors, and no zeros."""

    def test_a_failed_rollout_has_no_reward(self, questions, rubric, serve):
        """It says why, is counted, and is in no mean."""
        server = serve(faults=[Fault.refusing("no such thing")])
        results = SingleTurnEnv(questions, rubric=rubric).evaluate(
            model=server.model, max_concurrent=1
        )
        assert results["reward"] == [None, *REWARDS[1:]]
        assert results["error"][0].startswith("Refused: ")
        assert "no such thing" in results["error"][0]
        assert results["completion"][0] == []
        about = results.metadata
        assert (about["num_errors"], about["errors"]) == (1, {"Refused": 1})
        assert about["avg_reward"] == pytest.approx(6 / 7)
        assert about["avg_error"] == 1 / 8

    def test_it_is_logged_once(self, questions, rubric, serve, caplog):
        """However many fail."""
        server = serve(faults=lambda number: Fault.refusing("bad key", status=401))
        SingleTurnEnv(questions, rubric=rubric).evaluate(model=server.model)
        [record] = [r for r in caplog.records if "failed" in r.message]
        assert record.message.startswith("8 of 8 rollouts failed; the first: Refused: ")

    def test_an_endpoint_that_asks_for_patience_gets_it(self, questions, rubric, serve):
        """429 and 500 are tried again."""
        faults = [Fault.rate_limited(retry_after=0), Fault.failing(500), Fault.garbage()]
        server = serve(faults=faults)
        results = SingleTurnEnv(questions, rubric=rubric).evaluate(model=server.model)
        assert results["reward"] == REWARDS
        assert len(server.requests) == 11

    def test_and_so_for_a_client(self, questions, rubric, serve):
        """Whose own retries would not be counted."""
        server = serve(faults=[Fault.rate_limited(retry_after=0), Fault.failing(503)])
        with openai.OpenAI(base_url=server.url, api_key="k") as client:
            results = SingleTurnEnv(questions, rubric=rubric).evaluate(client, "test")
        assert results["reward"] == REWARDS

    def test_a_judge_that_fails_leaves_a_rollout_unscored(self, questions, server):
        """Its completion is there, its reward is not."""
        rubric = Rubric(
            [Criterion(requirement="Is right")],
            judge=PerCriterionGrader(FakeModel(["MET", TimeoutError("no reply")])),
        )
        results = SingleTurnEnv(questions, rubric=rubric).evaluate(
            model=server.model, num_examples=2, max_concurrent=1
        )
        assert results["reward"] == [1.0, None]
        assert results["errors"] == [{}, {"is_right": "TimeoutError: no reply"}]
        assert results["completion"][1][0]["content"] == "2"
        about = results.metadata
        assert (about["num_errors"], about["num_unscored"], about["avg_reward"]) == (0, 1, 1.0)

    def test_a_rubric_without_its_judge_is_refused_before_anything_is_asked(
        self, questions, server
    ):
        """It would cost, and come to nothing."""
        env = SingleTurnEnv(questions, rubric=Rubric([Criterion(requirement="Is right")]))
        with pytest.raises(RubricError, match="no judge was named"):
            env.evaluate(model=server.model)
        assert server.requests == []
        grader = PerCriterionGrader(FakeModel("MET"))
        assert env.evaluate(model=server.model, judge=grader)["reward"] == [1.0] * 8

    def test_a_check_that_asks_for_what_no_example_has_is_an_error_of_each(self, questions, server):
        """The other check is answered, and no rollout has a reward."""
        rubric = Rubric([lambda completion, dificulty: 1.0, lambda completion: 0.5])
        results = SingleTurnEnv(questions, rubric=rubric).evaluate(model=server.model)
        assert results["reward"] == [None] * 8
        assert results["check_2"] == [0.5] * 8
        for state in results.states:
            assert "needs an argument 'dificulty'" in state["errors"]["check_1"]

    def test_a_column_that_one_example_lacks_is_that_examples_error(self, server):
        """And the others are scored."""
        rows = [{"question": "1 + 1?", "level": 1}, {"question": "2 + 2?"}]
        env = SingleTurnEnv(rows, rubric=Rubric([lambda level: level]))
        results = env.evaluate(model=server.model, max_concurrent=1)
        assert results["reward"] == [1.0, None]
        assert "'level'" in str(results["errors"][1])

    def test_money_that_is_spent_is_no_crash(self, questions, rubric, server):
        """What was answered stays answered."""
        env = SingleTurnEnv(questions, rubric=rubric)
        with budget(dollars=0.0):
            results = env.evaluate(model=model_of(server.model, price=Price(input=1, output=1)))
        assert results.metadata["errors"] == {"BudgetExceeded": 8}
        assert server.requests == []

    def test_a_rollout_of_ones_own_may_raise(self, questions, rubric, server):
        """That is its error."""

        class Broken(Environment):
            async def rollout(self, input, client, model, sampling_args=None):
                state = await self.init_state(input, client, model, sampling_args)
                reply = await self.get_model_response(state, input["prompt"])
                if input["example_id"] == 1:
                    raise RuntimeError("the board is gone")
                state["completion"] = reply.text
                return state

        results = Broken(questions, rubric=rubric).evaluate(model=server.model, num_examples=3)
        assert results["reward"] == [1.0, None, 1.0]
        assert results["error"][1] == "RuntimeError: the board is gone"


class TestGroups:
    """The rollouts of one example are scored together."""

    def test_a_group_function_sees_one_example_at_a_time(self, questions, server):
        """And all of its rollouts."""
        sizes = []

        def shortest(completions) -> list[float]:
            sizes.append(len(completions))
            return [1.0] * len(completions)

        env = SingleTurnEnv(questions, rubric=Rubric([shortest]))
        results = env.evaluate(model=server.model, num_examples=2, rollouts_per_example=3)
        assert sizes == [3, 3]
        assert results["example_id"] == [0, 0, 0, 1, 1, 1]
        assert results["sample"] == [0, 1, 2, 0, 1, 2]

    def test_advantages_are_within_a_group(self, questions, serve):
        """1 and 0 lie half a point either side of their mean."""
        answers = iter(["1", "no"])
        env = SingleTurnEnv(questions, rubric=Rubric([lambda completion: "1" in str(completion)]))
        results = env.evaluate(
            model=serve(lambda messages: next(answers)).model,
            num_examples=1,
            rollouts_per_example=2,
            max_concurrent=1,
        )
        assert results["reward"] == [1.0, 0.0]
        assert results["advantage"] == [0.5, -0.5]
        assert [state["advantage"] for state in results.states] == [0.5, -0.5]

    def test_a_failed_rollout_is_no_part_of_its_group(self, questions, serve):
        """The others are compared among themselves."""
        server = serve(faults=[Fault.refusing("no")])
        env = SingleTurnEnv(questions, rubric=Rubric([lambda completions: [1.0, 0.0]]))
        results = env.evaluate(
            model=server.model, num_examples=1, rollouts_per_example=3, max_concurrent=1
        )
        assert results["reward"] == [None, 1.0, 0.0]
        assert results["advantage"] == [None, 0.5, -0.5]

    def test_inputs_with_one_id_are_a_group(self, questions, server):
        """As trainers give them."""
        sizes = []
        env = SingleTurnEnv(
            questions,
            rubric=Rubric([lambda states: sizes.append(len(states)) or [0.0] * len(states)]),
        )
        rows = [{"question": "1 + 1?", "example_id": n} for n in (4, 5, 4)]
        results = env.generate(rows, model=server.model)
        assert sorted(sizes) == [1, 2]
        assert list(zip(results["example_id"], results["sample"], strict=True)) == [
            (4, 0),
            (5, 0),
            (4, 1),
        ]


class TestGenerate:
    """Rollouts to train on."""

    def test_so_many_samples_of_the_data_set(self, env, server):
        """Round and round: 20 of 8 questions are each asked twice, and four of them a third time."""
        results = env.generate(client=None, model=server.model, n_samples=20)
        assert len(results.outputs) == server.calls == 20
        assert results["sample"] == [0] * 8 + [1] * 8 + [2] * 4

    def test_inputs_are_rows(self, env, server):
        """Also by column."""
        results = env.generate({"question": ["1 + 2?"], "answer": ["3"]}, model=server.model)
        assert results["reward"] == [1.0]
        assert server.calls == 1

    def test_it_is_one_or_the_other(self, env, server):
        """And both is a mistake."""
        with pytest.raises(ValueError, match="give n_samples or inputs, not both"):
            env.generate([], model=server.model, n_samples=3)
        with pytest.raises(ValueError, match="n_samples is 0"):
            env.generate(model=server.model, n_samples=0)

    def test_without_either_it_is_the_whole_data_set(self, questions, rubric, server):
        """The one to train on."""
        env = SingleTurnEnv(questions, eval_dataset=questions[:1], rubric=rubric)
        assert len(env.generate(model=server.model).outputs) == 8
        assert len(env.evaluate(model=server.model).outputs) == 1


class TestRubricsOfRows:
    """An example may bring its own rubric."""

    def test_it_takes_the_place_of_the_environments(self, server, rubric):
        """For that example alone."""
        rows = [
            {"question": "1 + 1?", "answer": "2"},
            {"question": "1 + 1?", "rubric": [{"check": {"contains": "3"}, "name": "three"}]},
            {"question": "1 + 1?", "rubric": '[{"check": {"contains": "2"}, "name": "two"}]'},
        ]
        results = SingleTurnEnv(rows, rubric=rubric).evaluate(model=server.model)
        assert results["metrics"] == [{"exact": 1.0}, {"three": 0.0}, {"two": 1.0}]

    def test_one_that_cannot_be_read_is_that_examples_error(self, server):
        """The others are scored."""
        rows = [
            {"question": "1 + 1?", "rubric": [{"check": {"contians": "2"}}]},
            {"question": "1 + 1?", "rubric": [{"check": {"contains": "2"}}]},
        ]
        results = SingleTurnEnv(rows).evaluate(model=server.model)
        assert results["reward"] == [None, 1.0]
        assert "contians" in results["errors"][0]["rubric"]


def test_a_rollout_passes_by_the_threshold_of_its_environment(serve):
    """Two of three words are worth 0.67; by default a rollout passes with the whole score."""
    rubric = Rubric([lambda completion: len(set(completion.split()) & {"a", "b", "c"}) / 3])
    env = SingleTurnEnv([{"prompt": "?"}], rubric=rubric)
    rates = []
    for threshold, measure in [(1.0, "score"), (0.6, "score"), (0.6, "reward")]:
        env.pass_threshold = threshold
        env.pass_measure = measure
        results = env.evaluate(model=serve("a b").model, rollouts_per_example=2)
        rates.append((results.summary().passes[2].any, results.summary().threshold))
    assert rates == [(0.0, 1.0), (1.0, 0.6), (1.0, 0.6)]
    env.pass_threshold = "high"
    with pytest.raises(ValueError, match="pass_threshold is 'high': give a number"):
        env.evaluate(model=serve("a b").model)


class Countdown(MultiTurnEnv):
    """A dialogue with a setting of its own."""

    def __init__(self, *args, start, **options):
        super().__init__(*args, **options)
        self.start = start

    async def env_response(self, messages, state):
        return [{"role": "user", "content": f"{self.start}?"}]


def test_a_run_is_resumed_with_the_settings_of_its_environment_only(tmp_path, serve):
    rows = [{"prompt": "?", "answer": "a"}]
    rubric = Rubric([{"check": {"contains": "a"}, "name": "a"}])
    model = serve("a").model

    def evaluate(**settings):
        env = Countdown(rows, rubric=rubric, **settings)
        return env.evaluate(model=model, run=tmp_path / "run", resume=(tmp_path / "run").exists())

    evaluate(start=3, max_turns=2)
    assert len(evaluate(start=3, max_turns=2).outputs) == 1
    for settings in ({"start": 3, "max_turns": 4}, {"start": 5, "max_turns": 2}):
        with pytest.raises(RunRefused, match="settings"):
            evaluate(**settings)


async def test_an_evaluation_within_a_budget_needs_the_price_of_the_model() -> None:
    """Without it, it is refused before the first call."""
    rubric = Rubric([lambda completion, answer: completion == answer])
    env = SingleTurnEnv([{"prompt": "2 + 2?", "answer": "4"}], rubric=rubric)
    with ModelServer("4") as server:
        with budget(dollars=1.0), pytest.raises(BudgetExceeded, match="is not known"):
            await env.evaluate(model=server.model)
        assert server.requests == []
        with budget(dollars=1.0):
            results = await env.evaluate(model=server.model, price=Price(input=0, output=0))
    assert results["reward"] == [1.0]
