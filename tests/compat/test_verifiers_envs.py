"""Programs that use the environments of `verifiers` run with the import line changed."""

import asyncio
import copy
import importlib
import json
import os
import pickle
import signal
import sys
import types
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import datasets
import openai
import pytest
from assay.compat.verifiers.decorators import stop
from assay.compat.verifiers.envs.singleturn_env import SingleTurnEnv
from assay.compat.verifiers.utils import data_utils

import assay.compat.verifiers as vf
from assay import RubricError, compat, envs
from assay.models import budget, dry_run
from assay.runs import Run
from assay.testing import ModelServer, tool_call

ROWS = [{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 3?", "answer": "6"}]


def exact(completion, answer, **kwargs):
    return 1.0 if completion[-1]["content"] == answer else 0.0


def make_env(**options):
    return vf.SingleTurnEnv(
        dataset=datasets.Dataset.from_list(ROWS),
        system_prompt="Add.",
        parser=vf.Parser(),
        rubric=vf.Rubric(funcs=[exact], weights=[1.0]),
        **options,
    )


async def test_an_evaluation_as_it_is_written_there():
    """Outputs and metadata, awaited."""
    with ModelServer("4") as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
            results = await make_env().evaluate(
                client,
                "test",
                sampling_args={"temperature": 0.0, "max_tokens": 16},
                num_examples=2,
                rollouts_per_example=2,
                max_concurrent=-1,
                save_results=False,
                independent_scoring=True,
                max_retries=3,
            )
    assert [output["reward"] for output in results["outputs"]] == [1.0, 1.0, 0.0, 0.0]
    assert results["metadata"]["avg_reward"] == 0.5
    assert results["metadata"]["rollouts_per_example"] == 2
    assert isinstance(results, vf.GenerateOutputs)


def test_a_script_runs_it_by_asyncio():
    """Or by the twin."""
    env = make_env()
    with ModelServer("6") as server:
        client = openai.AsyncOpenAI(base_url=server.url, api_key="k")
        assert asyncio.run(env.evaluate(client=client, model="test"))["reward"] == [0.0, 1.0]
        assert env.evaluate_sync(client=client, model="test")["reward"] == [0.0, 1.0]
        inputs = env.get_dataset(n=1)
        assert env.generate_sync(inputs, client, "test")["reward"] == [0.0]


def test_its_keywords_are_taken():
    """What is of no use is passed over, what is unknown becomes an attribute, as there."""
    env = make_env(message_type="chat", max_workers=64, env_id="sums", map_kwargs={}, board=[1])
    assert (env.env_id, env.board) == ("sums", [1])
    assert not hasattr(env, "max_workers")
    assert vf.MathRubric(max_workers=2, timeout_seconds=3, max_verify_chars=99).timeout_seconds == 3
    assert make_env(message_type="completion").keeps_text


def test_results_are_kept_and_gone_on_with(tmp_path):
    """By the path that they are told."""
    with ModelServer("4") as server:
        for _ in range(2):
            results = make_env().evaluate(model=server.model, results_path=tmp_path)
    assert server.calls == 2
    assert results["reward"] == [1.0, 0.0]
    with pytest.raises(ValueError, match="push_to_hf_hub is not supported"):
        make_env().evaluate(model=server.model, push_to_hf_hub=True)


class Guess(vf.MultiTurnEnv):
    """A game as it is written there."""

    def __init__(self, secret, **kwargs):
        super().__init__(**kwargs)
        self.secret = secret

    async def setup_state(self, state: vf.State) -> vf.State:
        state["tries"] = 0
        return state

    async def env_response(self, messages: vf.Messages, state: vf.State, **kwargs) -> vf.Messages:
        state["tries"] += 1
        return [{"role": "user", "content": "no"}]

    @vf.stop
    async def won(self, state: vf.State) -> bool:
        steps = state["trajectory"]
        return bool(steps) and steps[-1]["completion"][-1]["content"] == self.secret

    @vf.cleanup
    async def tidy(self, state: vf.State):
        state["tidy"] = True


def test_a_game_runs():
    """With its hooks."""

    def counting(messages):
        return str(len(messages))

    env = Guess("5", dataset=[{"question": "Guess!"}], max_turns=9)
    with ModelServer(counting) as server:
        results = env.evaluate(model=server.model)
    [state] = results["state"]
    assert (state["tries"], state["tidy"], state["stop_condition"]) == (2, True, "won")
    assert results["num_turns"] == [3.0]
    assert stop is vf.stop


def test_tools_run():
    """With their own words for what goes wrong."""

    def half(n: int) -> float:
        """Halve a number."""
        if n % 2:
            raise ValueError("it is odd")
        return n / 2

    env = vf.ToolEnv(
        dataset=[{"question": "?"}], tools=[half], error_formatter=lambda e: f"sorry, {e}"
    )
    turns = [[tool_call("half", n=4), tool_call("half", n=3)], "done"]
    with ModelServer(lambda messages: turns[len(messages) > 1]) as server:
        results = env.evaluate(model=server.model)
    said = [m["content"] for m in results["completion"][0] if m["role"] == "tool"]
    assert said == ["2.0", "sorry, it is odd"]
    assert results["half_calls"] == [2.0]


def test_the_classes_stand_to_each_other_as_there():
    """And are ours."""
    assert SingleTurnEnv is vf.SingleTurnEnv
    assert issubclass(vf.SingleTurnEnv, vf.MultiTurnEnv)
    assert issubclass(vf.ToolEnv, vf.MultiTurnEnv)
    assert issubclass(vf.MultiTurnEnv, vf.Environment)
    assert issubclass(vf.MultiTurnEnv, envs.MultiTurnEnv)


def test_example_data_comes_with_questions_and_answers(monkeypatch):
    """From wherever `datasets` has it."""
    rows = [{"question": f"{n}?", "answer": f"so\n#### {n}"} for n in range(5)]
    asked = []

    def load_dataset(path, subset, split):
        asked.append((path, subset, split))
        return datasets.Dataset.from_list(rows)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert len(data_utils.load_example_dataset("gsm8k", split="train", n=-1)) == 5
    dataset = data_utils.load_example_dataset("gsm8k", split="train", n=2)
    assert asked == [("openai/gsm8k", "main", "train")] * 2
    assert dataset.column_names == ["question", "answer"]
    assert all(row["question"] == f"{row['answer']}?" for row in dataset)
    with pytest.raises(ValueError, match=r"unknown example data 'nothing': use gsm8k"):
        vf.load_example_dataset("nothing")


@pytest.mark.parametrize(("strict", "answer"), [(True, None), (False, "4 apples")])
def test_a_row_without_a_hash_has_no_answer(monkeypatch, strict, answer):
    """With `compat.strict = False` its whole text is the answer, as verifiers 0.1.14 says."""
    monkeypatch.setattr(compat, "strict", strict)
    row = data_utils.get_preprocess_fn("gsm8k")({"question": "2 + 2?", "answer": "4 apples"})
    assert row == {"question": "2 + 2?", "answer": answer}


CHOICES = {"text": ["iron", "wood"], "label": ["A", "B"]}
GPQA = {"Question": "Which?", "Correct Answer": "right"} | {
    f"Incorrect Answer {n}": f"wrong {n}" for n in (1, 2, 3)
}


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("aime2024", {"problem": "1 + 1?", "answer": "002"}, [("1 + 1?", "2")]),
        ("aime2025", {"question": "1 + 1?", "answer": "$2$"}, [("1 + 1?", "2")] * 2),
        (
            "openbookqa",
            {"question_stem": "What rusts?", "choices": CHOICES, "answerKey": "A"},
            [("Question: What rusts?\n\nChoices:\nA. iron\nB. wood", "A")],
        ),
        (
            "mmlu",
            {"question": "2?", "choices": ["1", "2"], "answer": 1},
            [("Question: 2?\n\nA: 1\nB: 2", "B")],
        ),
        ("openrs_easy", {"problem": "?", "answer": "4", "level": "Hard"}, []),
        ("prime_code", {"prompt": "Write Rust.", "verification_info": "{}"}, []),
    ],
)
def test_rows_of_example_data_become_questions(monkeypatch, name, row, expected):
    """In the words of verifiers, for a model is asked them."""
    monkeypatch.setattr(
        datasets, "load_dataset", lambda path, subset, split: datasets.Dataset.from_list([row])
    )
    assert [
        (each["question"], each["answer"]) for each in vf.load_example_dataset(name)
    ] == expected


@pytest.mark.parametrize("name", ["gpqa_main", "gpqa_diamond"])
def test_choices_are_shuffled_by_the_seed(monkeypatch, name):
    """The letter of the right one goes with it."""
    monkeypatch.setattr(
        datasets, "load_dataset", lambda path, subset, split: datasets.Dataset.from_list([GPQA])
    )
    asked = [vf.load_example_dataset(name, seed=seed)[0] for seed in (0, 0, 1, 2, 3)]
    assert asked[0] == asked[1]
    assert len({each["answer"] for each in asked}) > 1
    for each in asked:
        assert f"\n{each['answer']}: right" in each["question"]
        assert each["question"].startswith("Question: Which?\n\nA: ")


async def said_by_tools(env, *calls):
    """What the tools say to these calls, one a turn."""
    turns = [*calls, "done"]
    with ModelServer(
        lambda messages: turns[sum(m["role"] == "assistant" for m in messages)]
    ) as server:
        [completion] = (await env.evaluate(model=server.model))["completion"]
    return [message.content for message in completion if message.role == "tool"]


async def test_code_runs_in_the_engine_of_the_interpreter():
    """And a cell finds what the cells before it defined."""
    codes = ["x = 6\nprint('set')", "x * 7", "x / 0"]
    env = vf.PythonEnv(dataset=[{"question": "?"}])
    shown = await said_by_tools(env, *(tool_call("python", code=code) for code in codes))
    assert shown[:2] == ["set", "Out[2]: 42"]
    assert shown[2].endswith("ZeroDivisionError: division by zero")
    assert [tool.name for tool in env.tool_defs] == ["python"]
    assert env.tool_defs[0].parameters["properties"].keys() == {"code"}


class LocalSandboxes:
    """A client of sandboxes, each a folder of this machine, with the four methods of verifiers'."""

    def __init__(self, folder):
        self.folder = folder
        self.deleted = []

    async def create(self, request):
        sandbox_id = f"sandbox-{len(list(self.folder.iterdir()))}"
        (self.folder / sandbox_id).mkdir()
        return SimpleNamespace(id=sandbox_id)

    async def wait_for_creation(self, sandbox_id): ...

    async def execute_command(self, sandbox_id, command, working_dir=None, **limits):
        home = self.folder / sandbox_id
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=home,
            env={**os.environ, "TMPDIR": str(home)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(), limits["timeout"])
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        return SimpleNamespace(
            stdout=stdout.decode(), stderr=stderr.decode(), exit_code=process.returncode
        )

    async def delete(self, sandbox_id):
        for pid in (self.folder / sandbox_id).glob("assay-python-*/pid"):
            with suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), signal.SIGKILL)
        self.deleted.append(sandbox_id)


async def test_code_runs_in_the_sandbox_of_a_client_of_ones_own(tmp_path):
    """In one process: what a cell defines stays, and each cell runs once."""
    env = vf.PythonEnv(dataset=[{"question": "?"}], timeout_per_command_seconds=20)
    env.sandbox_client = LocalSandboxes(tmp_path)
    codes = [
        "x = 6\nopen('log', 'a').write('once ')\nprint('set')",
        "x * 7",
        "x / 0",
        "import sys\nsys.exit(3)",
        "print('Error: of my own')",
        "x",
    ]
    shown = await said_by_tools(env, *(tool_call("python", code=code) for code in codes))
    assert shown[:2] == ["set", "Out[2]: 42"]
    assert shown[2].endswith("ZeroDivisionError: division by zero")
    assert shown[3].endswith("SystemExit: 3")
    assert shown[4:] == ["Error: of my own", "Out[6]: 6"]
    assert (tmp_path / "sandbox-0" / "log").read_text() == "once "
    assert env.sandbox_client.deleted == ["sandbox-0"]


async def test_python_starts_anew_in_a_sandbox_after_code_that_does_not_end(tmp_path):
    env = vf.PythonEnv(dataset=[{"question": "?"}], timeout_per_command_seconds=3)
    env.sandbox_client = LocalSandboxes(tmp_path)
    codes = ["x = 1", "while True: pass", "'x' in globals()"]
    shown = await said_by_tools(env, *(tool_call("python", code=code) for code in codes))
    assert shown == ["(no output)", "Error: Command timed out after 3s", "Out[1]: False"]


async def test_commands_run_in_a_sandbox_of_the_rollout():
    """Files stay from command to command; one that is never done is told, and forgotten."""
    env = vf.SandboxEnv(dataset=[{"question": "?"}], timeout_per_command_seconds=3)
    commands = ["echo hi > file", "sleep 60", "cat file; ls nothing"]
    shown = await said_by_tools(env, *(tool_call("bash", command=command) for command in commands))
    assert shown[:2] == ["(no output)", "Error: Command timed out after 3s"]
    assert shown[2].startswith("hi\nstderr:\nls: ")
    assert not env.active_sandboxes


async def test_a_rollout_whose_infrastructure_fails_is_tried_again(monkeypatch):
    """So often as is allowed; then its error stays."""

    class Shaky(vf.SingleTurnEnv):
        tries = 0

        async def setup_state(self, state):
            self.tries += 1
            if self.tries < 3:
                raise vf.InfraError("no room")

    async def at_once(seconds):
        return None

    monkeypatch.setattr("assay.compat.verifiers.environments.asyncio.sleep", at_once)
    with ModelServer("4") as server:
        for retries, kind in ((2, None), (1, "InfraError")):
            env = Shaky(dataset=ROWS[:1], rubric=vf.Rubric(funcs=[exact]))
            [output] = (await env.evaluate(model=server.model, max_retries=retries))["outputs"]
            assert (output["error"] or {}).get("error") == kind
            assert output["reward"] == (kind is None)


def test_results_are_saved_as_there(tmp_path, monkeypatch):
    """A line a rollout and the metadata, in the folder of an ordinary run."""
    monkeypatch.chdir(tmp_path)
    with ModelServer("4") as server:
        make_env(env_id="sums").evaluate(model=server.model, save_results=True)
    [folder] = tmp_path.glob("outputs/evals/sums--*/*")
    rows = [
        json.loads(line)
        for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [(row["reward"], row["completion"][-1]["content"]) for row in rows] == [
        (1.0, "4"),
        (0.0, "4"),
    ]
    about = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    assert (about["avg_reward"], about["pass_at_k"]) == (0.5, {})
    assert len(list(Run.open(folder).rows())) == 2


def test_the_metadata_say_how_often_one_of_several_rollouts_passes():
    """Or all of them, by the powers of two, from the threshold of the environment on."""
    replies = iter("4545")
    env = make_env(pass_threshold=1.0)
    with ModelServer(lambda messages: next(replies)) as server:
        about = env.evaluate(
            model=server.model, num_examples=1, rollouts_per_example=4, state_columns=["turn"]
        ).metadata
    assert about["pass_at_k"] == pytest.approx({"1": 1 / 2, "2": 5 / 6, "4": 1.0})
    assert about["pass_all_k"] == pytest.approx({"1": 1 / 2, "2": 1 / 6, "4": 0.0})
    assert (about["pass_threshold"], about["state_columns"], about["tools"]) == (
        1.0,
        ["turn"],
        None,
    )


def test_calls_of_tools_are_saved_as_there(tmp_path):
    """Each as JSON text, beside what the model was told of the tools."""

    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    env = vf.ToolEnv(
        tools=[double],
        dataset=[{"question": "2 + 2?", "answer": "4"}],
        rubric=vf.Rubric(funcs=[exact]),
    )
    with ModelServer(
        lambda messages: "4" if messages[2:] else tool_call("double", number=2)
    ) as server:
        env.evaluate(model=server.model, save_results=True, results_path=tmp_path)
    row = json.loads((tmp_path / "results.jsonl").read_text(encoding="utf-8"))
    [call] = row["completion"][0]["tool_calls"]
    assert (json.loads(call)["name"], json.loads(json.loads(call)["arguments"])) == (
        "double",
        {"number": 2},
    )
    assert [tool["name"] for tool in row["tool_defs"]] == ["double"]


def test_a_data_set_is_one_of_hugging_face():
    """With prompts, and shuffled as there."""
    env = make_env()
    dataset = env.get_dataset(seed=1)
    assert isinstance(dataset, datasets.Dataset)
    assert env.get_eval_dataset(n=1)[0]["prompt"] == [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "2 + 2?"},
    ]
    assert sorted(dataset["example_id"]) == [0, 1]


def test_messages_have_their_fields_by_key_and_by_attribute():
    """Also copied, saved and compared with plain ones."""
    call = vf.ToolCall(id="a", name="add", arguments="{}")
    message = vf.AssistantMessage(content="4", tool_calls=[call])
    assert (message.content, message["content"], message.get("role")) == ("4", "4", "assistant")
    assert (
        message.tool_calls[0].name,
        message.tool_calls[0].function.name,
        message.tool_calls[0]["name"],
    ) == ("add",) * 3
    assert vf.AssistantMessage(content="x").tool_calls is None
    assert not hasattr(vf.UserMessage(content="x"), "tool_calls")
    assert vf.UserMessage(content="x") == {"role": "user", "content": "x"}
    assert isinstance(message, vf.Message)
    assert copy.deepcopy(message) == pickle.loads(pickle.dumps(message)) == message
    message.content = "5"
    assert json.loads(json.dumps(message))["content"] == message.model_dump()["content"] == "5"
    assert (
        vf.UserMessage.model_validate({"content": "x"}).model_copy(update={"content": "y"}).content
        == "y"
    )


def test_it_steps_in_for_the_package_only_when_that_is_not_there(monkeypatch):
    """Two packages of one name in a process would not know each other's classes."""
    monkeypatch.setitem(sys.modules, "verifiers", types.ModuleType("verifiers"))
    with pytest.raises(ImportError, match="verifiers itself is already imported"):
        vf.install()


def test_variables_that_an_environment_needs_are_named(monkeypatch):
    """All that are missing."""
    monkeypatch.setenv("HERE", "1")
    with pytest.raises(
        vf.MissingKeyError, match="environment variables are not set: NOT_HERE, NOR_HERE"
    ):
        vf.ensure_keys(["HERE", "NOT_HERE", "NOR_HERE"])


async def test_a_text_is_answered_in_text_where_the_type_is_completion():
    """As before 0.1.11; elsewhere it is a chat."""
    rows = [{"prompt": "2 + 2 =", "answer": "4"}]
    with ModelServer("4") as server:
        for kind, completion in (
            ("completion", "4"),
            ("chat", [{"role": "assistant", "content": "4"}]),
        ):
            env = vf.SingleTurnEnv(dataset=rows, message_type=kind)
            assert (await env.evaluate(model=server.model))["completion"] == [completion]


async def test_a_group_may_hold_a_group():
    """Each example finds its environment, and that one's rubric."""

    def named(name):
        def check(completion):
            return 1.0

        check.__name__ = name
        return vf.SingleTurnEnv(dataset=[{"question": name}], rubric=vf.Rubric(funcs=[check]))

    inner = vf.EnvGroup([named("a"), named("b")])
    group = vf.EnvGroup([inner, named("c")], env_names=["inner", "c"])
    with ModelServer("x") as server:
        outputs = (await group.evaluate(model=server.model))["outputs"]
    assert [sorted(output["metrics"]) for output in outputs] == [
        [name, "num_turns"] for name in "abc"
    ]
    assert [output["info"]["env_id"] for output in outputs] == [
        ["inner", "env_0"],
        ["inner", "env_1"],
        "c",
    ]


async def test_another_model_may_be_asked_in_a_rollout():
    """With settings of its own, and by the rollout's client."""

    class Two(vf.SingleTurnEnv):
        async def setup_state(self, state):
            asked = await self.get_model_response(
                state, state["prompt"], model="other", sampling_args={"max_tokens": 7}
            )
            raw = await state["client"].chat.completions.create(
                model="raw", messages=[{"role": "user", "content": "?"}]
            )
            state["said"] = [asked.choices[0].message.content, raw.choices[0].message.content]

    with ModelServer("4") as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
            results = await Two(dataset=ROWS[:1]).evaluate(client, "test", state_columns=["said"])
    assert results["said"] == [["4", "4"]]
    assert [asked.body["model"] for asked in server.requests] == ["other", "raw", "test"]
    assert 7 in (
        server.requests[0].body.get("max_completion_tokens"),
        server.requests[0].body.get("max_tokens"),
    )


@pytest.mark.parametrize("where", ["environment", "info", "state", "info later"])
async def test_tools_may_be_in_the_form_of_older_versions(where):
    """Which is OpenAI's."""
    told = {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {}},
    }
    tools = [{"type": "function", "function": told}]

    class Looking(vf.SingleTurnEnv):
        async def setup_state(self, state):
            if where == "state":
                state["oai_tools"] = tools
            elif where == "info later":
                state["info"]["oai_tools"] = tools

    row = {"question": "?", "info": {"oai_tools": tools} if where == "info" else {}}
    env = Looking(dataset=[row], **({"oai_tools": tools} if where == "environment" else {}))
    with ModelServer("4") as server:
        await env.evaluate(model=server.model)
    assert server.requests[0].body["tools"] == tools


def test_every_name_of_the_table_is_there():
    """Under its path, and in the stub of it if it has one."""
    table = json.loads((Path(vf.__file__).parent / "names.json").read_text(encoding="utf-8"))
    for path, homes in table.items():
        module = importlib.import_module(f"assay.compat.verifiers.{path}")
        lacking = " ".join(
            names for home, names in homes.items() if home == "missing" or home.startswith("!")
        ).split()
        assert all(
            getattr(module, name) is not None for name in module.__all__ if name not in lacking
        )
    assert all(getattr(vf, name) is not None for name in vf.__all__)


async def test_a_subclass_may_set_its_parser_and_rubric():
    """Before and after the class above it does, and put the rubric into a group."""

    class Own(vf.MultiTurnEnv):
        def __init__(self, **kwargs):
            self.parser = vf.XMLParser(["answer"])
            super().__init__(parser=self.parser, client=None, model=None, **kwargs)
            self.rubric = vf.Rubric(funcs=[self.right], parser=self.parser)

        def right(self, parser, completion, answer):
            return float(parser.parse_answer(completion) == answer)

        def is_completed(self, messages, state, **kwargs):
            return len(state["responses"]) == 2

        def env_response(self, messages, state, **kwargs):
            return [{"role": "user", "content": "Are you sure?"}], state

    env = Own(dataset=ROWS[:1])
    env.rubric = vf.RubricGroup(rubrics=[vf.Rubric(funcs=[lambda completion: 0.5]), env.rubric])
    with ModelServer("<answer>4</answer>") as server:
        [output] = (await env.evaluate(model=server.model))["outputs"]
    assert output["metrics"] == {
        "<lambda>": 0.5,
        "right": 1.0,
    }  # what counts turns was in the rubric that is replaced
    assert [message["role"] for message in output["completion"]] == [
        "assistant",
        "user",
        "assistant",
    ]


@pytest.mark.parametrize("name", ["score_group", "score_rollout"])
async def test_a_method_that_is_replaced_on_a_rubric_scores(name):
    """As one of a subclass does, around the one it replaces."""
    rubric = vf.Rubric(funcs=[exact])
    before = getattr(rubric, name)

    async def doubled(scored):
        await before(scored)
        for state in scored if name == "score_group" else [scored]:
            state["reward"] *= 2

    setattr(rubric, name, doubled)
    with ModelServer("4") as server:
        results = await vf.SingleTurnEnv(dataset=ROWS, rubric=rubric).evaluate(model=server.model)
    assert results["reward"] == [2.0, 0.0]
    assert results["exact"] == [1.0, 0.0]


async def test_a_hidden_argument_may_have_any_annotation():
    """Also one that cannot be read, for the model is not told of it."""

    def look(place: str, browser: "Browser") -> str:  # noqa: F821
        """Looks at a place."""
        return f"{browser} sees {place}"

    class Looking(vf.StatefulToolEnv):
        def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
            return {**tool_args, "browser": "b1"}

    env = Looking(dataset=[{"question": "?"}])
    env.add_tool(look, args_to_skip=["browser"])
    assert await said_by_tools(env, tool_call("look", place="home")) == ["b1 sees home"]
    env.remove_tool(look)
    assert (env.tools, env.tool_map, env.tool_defs) == ([], {}, [])


def test_lists_that_do_not_match_are_refused():
    """What was forgotten is named, and not passed over; a list may be replaced as a whole."""
    rubric = vf.Rubric(funcs=[exact])
    held = rubric.funcs
    rubric.funcs.append(lambda completion: 0.5)
    assert rubric.reward_funcs is held
    with pytest.raises(
        RubricError, match=r"weights \(1\) must match number of functions \(2\): add to both"
    ):
        rubric.score_rollout_sync(completion=[{"role": "assistant", "content": "4"}], answer="4")
    rubric.reward_weights.append(2.0)
    assert (
        rubric.score_rollout_sync(completion=[{"role": "assistant", "content": "4"}], answer="4")[
            "reward"
        ]
        == 2.0
    )
    rubric.funcs, rubric.weights = [lambda answer: 0.25], [1.0]
    assert rubric.score_rollout_sync(answer="4") == {"<lambda>": 0.25, "reward": 0.25}
    # By the names of older versions too, as the environment for tools in XML does.
    rubric.reward_funcs, rubric.reward_weights = [lambda answer: 0.5], [1.0]
    rubric.reward_funcs.append(lambda answer: 0.25)
    rubric.reward_weights.append(1.0)
    assert rubric.score_rollout_sync(answer="4")["reward"] == 0.75
    rubric.funcs, rubric.weights = [lambda answer: 0.25], [1.0]
    rubric.add_metric(exact)
    assert (len(rubric.funcs), rubric.weights, len(held)) == (2, [1.0, 0.0], 2)


def test_a_function_in_the_lists_takes_the_place_of_the_judges_own_score():
    """As one does that is added by the method."""
    rubric = vf.JudgeRubric(judge_model="http://127.0.0.1:9/v1#none")
    assert rubric.get_reward_func_names() == ["judge_score"]
    rubric.funcs.append(exact)
    rubric.weights.append(1.0)
    assert rubric.get_reward_func_names() == ["exact"]


async def test_what_a_rubric_or_an_inner_environment_holds_is_freed():
    """Once, when the outermost environment is closed; a hook that fails keeps no other from it."""
    freed = []

    class Holding(vf.Rubric):
        @vf.teardown
        async def free(self):
            freed.append("rubric")

        @vf.cleanup
        async def fail(self, state):
            raise OSError("the disk is full")

        @vf.cleanup(priority=-1)
        def tidy(self, state, level=0):
            freed.append(f"rollout {level} {state['error'] is not None}")

    class Env(vf.SingleTurnEnv):
        async def setup_state(self, state):
            if state["info"]["fails"]:
                raise vf.InfraError("no room")

        @vf.teardown
        def free(self):
            freed.append("environment")

    rows = [{"question": "?", "level": level, "info": {"fails": level == 2}} for level in (1, 2)]
    env = Env(
        dataset=rows, rubric=vf.RubricGroup([Holding(funcs=[lambda completion: 1.0]), vf.Rubric()])
    )
    async with vf.EnvGroup([env]) as group:
        with ModelServer("4") as server:
            await group.evaluate(model=server.model)
        assert sorted(freed) == ["rollout 1 False", "rollout 2 True"]
    await group.aclose()
    assert freed[2:] == ["rubric", "environment"]


def test_one_tool_rubric_may_score_in_several_places():
    """It keeps nothing of a rollout, so that no count reaches another environment."""

    def half(n: int) -> float:
        """Halve a number."""
        return n / 2

    rubric = vf.ToolRubric(tools=[half])
    turns = [[tool_call("half", n=4)] * 2, "done"]
    with ModelServer(lambda messages: turns[len(messages) > 1]) as server:
        for given in (rubric, vf.RubricGroup([rubric]), vf.RubricGroup([vf.Rubric(), rubric])):
            results = vf.ToolEnv(dataset=[{"question": "?"}], tools=[half], rubric=given).evaluate(
                model=server.model
            )
            [metrics] = results["metrics"]
            names = ("total_tool_calls", "half_calls", "num_turns")
            assert [metrics[name] for name in names] == [2.0, 2.0, 2.0]


async def test_one_rollout_or_one_group_is_run_by_hand():
    """As a trainer does: the output of each, with the fields of the state that are asked for."""

    def best(completions) -> list[float]:
        longest = max(len(completion[-1].content) for completion in completions)
        return [float(len(completion[-1].content) == longest) for completion in completions]

    said = iter(["four", "4", "4"])
    env = vf.SingleTurnEnv(dataset=ROWS, rubric=vf.Rubric(funcs=[best]), system_prompt="Add.")
    with ModelServer(lambda messages: next(said)) as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
            row = env.get_dataset()[0]
            outputs = await env.run_group(
                [row] * 2, client, "test", {"max_tokens": 5}, 0, ["trajectory_id"]
            )
            # The two are asked side by side, so either may be told the longer reply.
            assert sorted(output["reward"] for output in outputs) == [0.0, 1.0]
            assert len({output["trajectory_id"] for output in outputs}) == 2
            env.rubric = vf.Rubric(funcs=[exact])
            one = await env.run_rollout(
                input=row, client=client, model="test", sampling_args={}, env_client=None
            )
    assert (one["reward"], one["exact"], one["example_id"], one["stop_condition"]) == (
        1.0,
        1.0,
        0,
        "max_turns_reached",
    )
    assert [message["role"] for message in one["prompt"]] == ["system", "user"]
    assert (
        server.requests[0].body.get(
            "max_tokens", server.requests[0].body.get("max_completion_tokens")
        )
        == 5
    )


@pytest.mark.parametrize("several", [False, True])
async def test_callbacks_are_told_what_is_begun_and_what_is_done(tmp_path, several):
    """All inputs and their groups first, then every group with the outputs and the mean so far, and where they are saved."""
    begun, told, logged = [], [], []

    def on_progress(all_outputs, new_outputs, metadata):
        told.append(
            (len(all_outputs), [output["tries"] for output in new_outputs], metadata["avg_reward"])
        )

    class Env(vf.SingleTurnEnv):
        async def setup_state(self, state):
            state["tries"] = 1

    with ModelServer("4") as server:
        await Env(dataset=ROWS, rubric=vf.Rubric(funcs=[exact])).evaluate(
            model=server.model,
            rollouts_per_example=2,
            max_concurrent=1,
            state_columns=["tries"],
            independent_scoring=several,
            save_results=True,
            results_path=tmp_path,
            on_start=lambda inputs, groups: begun.append((len(inputs), len(groups))),
            on_progress=[on_progress] if several else on_progress,
            on_log=logged.append,
        )
    assert begun == [(4, 4 if several else 2)]
    assert sorted(told)[-1] == (4, [1, 1], 0.5)
    assert (len(told), told[0]) == (2, (2, [1, 1], 1.0))
    assert logged == [f"Saved final results to {tmp_path}"]


async def test_a_model_may_be_named_by_a_configuration(monkeypatch):
    """By its address and the variable with its key. It is asked without the SDK of the API."""
    monkeypatch.setenv("OUR_KEY", "secret")
    with ModelServer("4") as server:
        config = vf.ClientConfig(
            api_base_url=server.url, api_key_var="OUR_KEY", extra_headers={"X-Team": "a"}
        )
        settings = {"top_p": 0.5, "extra_body": {"min_p": 0.1}, "extra_headers": {"X-Call": "b"}}
        with monkeypatch.context() as patched:
            patched.setattr(openai, "AsyncOpenAI", None)
            results = await make_env().evaluate(config, "test", sampling_args=settings)
        assert results["reward"] == [1.0, 0.0]
        async with vf.OpenAIChatCompletionsClient(config) as client:
            results = await make_env().evaluate(client, "test")
            assert results["reward"] == [1.0, 0.0]
    asked = server.requests[0]
    assert (asked.headers["x-team"], asked.headers["x-call"]) == ("a", "b")
    assert (asked.body["model"], asked.body["top_p"], asked.body["min_p"]) == ("test", 0.5, 0.1)
    assert {asked.headers["authorization"] for asked in server.requests} == {"Bearer secret"}
    assert (config.client_type, config.timeout) == ("openai_chat_completions", 3600.0)


async def test_a_program_may_use_the_sdk_of_a_configuration_itself():
    """Its client is made when it is first used, and closed at the end."""

    class Asking(vf.SingleTurnEnv):
        async def setup_state(self, state):
            messages = [{"role": "user", "content": "?"}]
            create = state["client"].chat.completions.create
            state["own"] = (await create(model="raw", messages=messages)).choices[0].message.content
            other = await self.get_model_response(state, state["prompt"], model="other")
            state["others"] = other.message.content

    with ModelServer("4") as server:
        config = vf.ClientConfig(api_base_url=server.url)
        results = await Asking(dataset=ROWS[:1]).evaluate(
            config, "test", state_columns=["own", "others"]
        )
    assert (results["own"], results["others"]) == (["4"], ["4"])
    assert [asked.body["model"] for asked in server.requests] == ["raw", "other", "test"]
    assert results.states[0]["client"].is_closed()


@pytest.mark.parametrize(("alone", "said"), [(False, "aabbaabbaa"), (True, "abbaabbaab")])
async def test_several_endpoints_take_turns(monkeypatch, alone, said):
    """By the example, or by the rollout where each is scored alone; one group is asked of the one that `client_idx` names."""
    monkeypatch.setenv("OUR_KEY", "secret")
    env = vf.SingleTurnEnv(
        dataset=[{"question": f"{n}?"} for n in range(5)],
        rubric=vf.Rubric(funcs=[lambda state: 1.0]),
    )
    with ModelServer("a") as one, ModelServer("b") as two:
        endpoints = [
            vf.EndpointClientConfig(api_base_url=one.url),
            {"api_base_url": two.url, "extra_headers": {"x-a": "2"}},
        ]
        config = vf.ClientConfig(
            api_key_var="OUR_KEY",
            client_idx=1,
            extra_headers={"x-a": "1"},
            endpoint_configs=endpoints,
        )
        results = await env.evaluate(
            config, "test", rollouts_per_example=2, independent_scoring=alone
        )
        [output] = await env.run_group([env.dataset[0]], config, "test")
    assert "".join(row["completion"][-1]["content"] for row in results["outputs"]) == said
    assert results["metadata"]["base_url"] == f"{one.url},{two.url}"
    assert [{asked.headers["x-a"] for asked in server.requests} for server in (one, two)] == [
        {"1"},
        {"2"},
    ]
    assert {asked.headers["authorization"] for asked in one.requests} == {"Bearer secret"}
    assert output["completion"][-1]["content"] == "b"


class Echo(vf.Client):
    """Asks no model: it says what it was asked, with what was told about the call."""

    def setup_client(self, config):
        return config.api_base_url

    async def to_native_tool(self, tool):
        return tool.name

    async def to_native_prompt(self, messages):
        return messages[-1].content, {}

    async def get_native_response(self, prompt, model, sampling_args, tools=None, **kwargs):
        if prompt == "3 + 3?":
            raise ValueError("no")
        return [prompt, model, sampling_args.get("top_p"), tools, kwargs.get("extra_headers")]

    async def raise_from_native_response(self, response):
        await super().raise_from_native_response(response)

    async def from_native_response(self, response):
        return vf.Response(message={"role": "assistant", "content": json.dumps(response)})

    async def close(self):
        await super().close()


async def test_a_client_of_a_class_of_its_own_is_asked():
    """With the state, the tools and all settings; what it raises is one rollout's `vf.ModelError`, with its cause."""
    config = vf.ClientConfig(
        api_base_url="there", extra_headers_from_state={"X-Example": "example_id", "X-No": "no"}
    )
    client = Echo(config)
    results = await make_env(sampling_args={"top_p": 0.5}).evaluate(
        client, "m", rollouts_per_example=2
    )
    first, *_, last = results["outputs"]
    assert json.loads(first["completion"][-1]["content"]) == [
        "2 + 2?",
        "m",
        0.5,
        None,
        {"X-Example": "0"},
    ]
    assert last["error"]["error"] == "ModelError"
    assert last["error"]["error_chain_repr"].endswith("-> ValueError('no')")
    assert (client.client, results.states[0]["client"], results["metadata"]["model"]) == (
        "there",
        client,
        "m",
    )
    assert (results["metadata"]["num_errors"], results["metadata"]["base_url"]) == (2, None)
    await client.close()


async def test_a_client_of_its_own_beside_another():
    """An environment may ask either for one response, and the state of a rollout has the one that was given."""
    env, own = make_env(), Echo("sdk")
    example = env.dataset[0]
    with ModelServer("4") as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
            for given, other, said in (
                (own, client, "4"),
                (client, own, '["2 + 2?", "m", null, ["t"], null]'),
            ):
                state = await env.init_state(example, given, "m")
                tools = [
                    vf.Tool(
                        name="t", description="", parameters={"type": "object", "properties": {}}
                    )
                ]
                response = await env.get_model_response(
                    state, state["prompt"], client=other, tool_defs=tools
                )
                assert response.message.content == said
                assert isinstance(state["client"], vf.Client)
    assert (await vf.utils.response_utils.parse_response_message(response))[0].content == said
    assert (await env.rollout(example, own, "m"))["completion"][-1]["content"].startswith(
        '["2 + 2?", "m"'
    )


async def test_a_client_of_its_own_says_what_is_wrong():
    """A class that leaves a method out is not made, and what is no response is an error of the rollout."""
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (vf.Client,), {"close": Echo.close})("sdk")

    class Mute(Echo):
        async def from_native_response(self, response):
            return None

    [output] = (await make_env().evaluate(Mute("sdk"), "m", num_examples=1))["outputs"]
    assert (
        output["error"]["error_chain_repr"]
        == "TypeError('get_response of Mute returned None: return a vf.Response')"
    )


async def test_a_client_of_its_own_is_not_asked_in_a_dry_run_or_beyond_dollars():
    """What it costs is not known, so a budget in dollars cannot hold it."""
    with dry_run() as counted:
        results = await make_env().evaluate(Echo("sdk"), "m")
    assert (counted.calls, results["metadata"]["num_errors"]) == (2, 0)
    with budget(dollars=1):
        [output, _] = (await make_env().evaluate(Echo("sdk"), "m"))["outputs"]
    assert "the price of m is not known" in output["error"]["error_chain_repr"]


async def test_a_rollout_ends_when_its_time_is_over():
    """What was said by then is scored, as there."""

    class Slow(vf.MultiTurnEnv):
        async def env_response(self, messages, state, **kwargs):
            await asyncio.sleep(60)

    env = Slow(dataset=ROWS[:1], rubric=vf.Rubric(funcs=[exact]), timeout_seconds=0.5)
    with ModelServer("4") as server:
        [output] = (await env.evaluate(model=server.model, state_columns=["timed_out"]))["outputs"]
    assert (output["stop_condition"], output["timed_out"], output["error"]) == (
        "timeout_reached",
        True,
        None,
    )
    assert (output["reward"], output["num_turns"]) == (1.0, 1.0)


async def test_an_error_of_theirs_keeps_its_kind():
    """Where a model of the program's own raises it."""

    class Broken:
        id = "broken"

        async def __call__(self, request):
            raise vf.InvalidModelResponseError("two choices")

    [output] = (await make_env().evaluate(model=Broken(), num_examples=1))["outputs"]
    assert output["error"]["error"] == "InvalidModelResponseError"


def test_parts_of_a_message_have_their_type():
    """So that an endpoint can read them."""
    parts = [
        vf.TextContentPart(text="Look."),
        vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url="data:,")),
    ]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1].image_url.url == "data:,"


async def test_what_environments_use_to_run_things_side_by_side():
    """A semaphore of two, none for no limit, and an environment of a group by its name."""
    from assay.compat.verifiers.utils.async_utils import maybe_semaphore, with_sem

    most = under_way = 0

    async def work(number):
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return number

    semaphore = await maybe_semaphore(2)
    assert await asyncio.gather(*(with_sem(semaphore, work(n)) for n in range(5))) == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert most == 2
    assert await with_sem(await maybe_semaphore(None), work(7)) == 7
    env = vf.SingleTurnEnv(dataset=[{"question": "2+2?", "answer": "4"}])
    group = vf.EnvGroup([env], env_names=["sums"])
    assert group.get_env_for_name("sums") is env
    with pytest.raises(
        ValueError, match="No environment found for info\\['env_id'\\]='other': use sums"
    ):
        group.get_env_for_name("other")


class _OldRollout(vf.Environment):
    """As in 0.1.3: a rollout is of the fields of a row, and the model is asked by a client, a name and a prompt."""

    async def rollout(
        self,
        client,
        model,
        prompt,
        answer="",
        task="default",
        info=None,
        sampling_args=None,
        **kwargs,
    ):
        asked = {"client": client, "model": model, "prompt": prompt}
        named = await self.get_model_response(
            **asked, oai_tools=None, sampling_args=sampling_args, message_type="chat"
        )
        placed = await self.get_model_response(client, model, prompt, sampling_args=sampling_args)
        said = [
            {"role": "assistant", "content": reply.choices[0].message.content}
            for reply in (named, placed)
        ]
        return said, {"answer": f"{answer} for {task}", "responses": [named, placed]}


class _OldTurns(vf.MultiTurnEnv):
    """As in 0.1.5: it is asked whether messages and a state are over, and returns a state beside its messages."""

    def env_response(self, messages, state, **kwargs):
        state["told"] = [*state.get("told", []), (state["turn"], len(state["responses"]))]
        return [{"role": "user", "content": "And then?"}], state

    async def is_completed(self, messages, state, **kwargs):
        return (
            await super().is_completed(messages, state, **kwargs) or len(state.get("told", [])) >= 2
        )


class _AsksAgain(vf.MultiTurnEnv):
    async def env_response(self, messages, state):
        asked = [vf.UserMessage(content="Are you sure?")]
        reply = await self.get_model_response(
            state, asked, client=state["client"], model=state["model"]
        )
        return [vf.UserMessage(content=f"Somebody says {reply.message.content}.")]


async def test_the_client_of_a_state_can_be_asked_again():
    """Also where there is none of an SDK, but the name of a model, as on the command line."""
    env = _AsksAgain(
        dataset=ROWS[:1], rubric=vf.Rubric(funcs=[lambda completion: len(completion)]), max_turns=2
    )
    with ModelServer("4") as server:
        [output] = (await env.evaluate(model=server.model))["outputs"]
    assert (output["error"], output["completion"][1]["content"]) == (None, "Somebody says 4.")


async def test_environments_of_earlier_versions_run():
    """Alone and in a group, which calls them as it calls those of today."""
    old = _OldRollout(
        dataset=ROWS[:1],
        rubric=vf.Rubric(funcs=[lambda answer: float(answer.startswith("4 for "))]),
    )
    turns = _OldTurns(
        dataset=ROWS[:1], rubric=vf.Rubric(funcs=[lambda state: len(state["told"])]), max_turns=9
    )
    with ModelServer("4") as server:
        for env in (old, vf.EnvGroup([old])):
            [output] = (await env.evaluate(model=server.model))["outputs"]
            assert (output["reward"], len(output["completion"]), output["error"]) == (1.0, 2, None)
        results = await turns.evaluate(model=server.model, state_columns=["told"])
    assert results["told"] == [[(1, 1), (2, 2)]]
    assert results["reward"] == [2.0]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), RuntimeError("x")])
def test_a_rollout_whose_completion_cannot_be_rendered_is_an_error(error):
    """Whatever is raised. The rubric would score an empty completion."""

    class Broken(vf.SingleTurnEnv):
        async def render_completion(self, state):
            raise error

    env = Broken(dataset=[{"question": "?"}], rubric=vf.Rubric([lambda completion: 0.7]))
    with ModelServer("hi") as server:
        results = env.evaluate(model=server.model)
    assert results["error"][0]["error"] == type(error).__name__
