"""Environments of ours have the keywords, methods and hooks of those in `verifiers`, and give what those give."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial, partialmethod
from importlib import import_module
from inspect import signature
from logging import Logger
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, cast
from uuid import uuid4

from assay import compat, envs
from assay.compat.verifiers import example_data, records
from assay.compat.verifiers.numeric_rubrics import (
    Rubric,
    RubricGroup,
    scores_independently,
    tidy_up,
    warn_unscored,
    zeroed,
)
from assay.compat.verifiers.typed_messages import (
    Response,
    ResponseMessage,
    Tool,
    as_said,
    sanitize_tool_calls,
    to_oai_tool,
    typed,
)
from assay.concurrency import FAILURES, is_stop_request, set_variable
from assay.envs.base_env import (
    EnvironmentOptions,
    await_if_needed,
    call_by_name,
    cleanup,
    stop,
    teardown,
)
from assay.envs.dataset import copy_nested, select_first
from assay.envs.model_under_test import ModelUnderTest
from assay.envs.multi_turn import TOO_LONG
from assay.errors import AssayError, NoReply, NotAsked
from assay.errors import ModelError as OurModelError
from assay.graders.verdicts import to_finite_float
from assay.models.budgets import Ledger, count_call, unknown_price_error
from assay.models.model import Tool as DeclaredTool
from assay.models.model import Usage
from assay.redaction import get_logger
from assay.report import NOTHING_APPLIES
from assay.rubric import Rubric as OurRubric
from assay.runs.jsonable import to_jsonable
from assay.runs.row import COLUMN
from assay.runs.stats import Passes
from assay.types import Message, State
from assay.wording import describe_error, format_value

OURS = frozenset({"dataset", "max_turns", *EnvironmentOptions.__annotations__})
HELD = "row_rubric"  # what a column `rubric` is called but for functions: here it is not what scores the row
# What theirs takes, and ours has no use for.
UNNEEDED = frozenset({"max_workers", "map_kwargs", "interleaved_rollouts"})

_retries: ContextVar[int] = ContextVar("retries", default=0)
_choose: ContextVar[Callable[[Any], ModelUnderTest] | None] = ContextVar("choose", default=None)
_tell: ContextVar[Callable[[Sequence[State]], None]] = ContextVar(
    "tell", default=lambda states: None
)


def _setter(name: str) -> Callable[[Any, Any], None]:
    """A method that sets an attribute, in the environments of a group too."""

    def setter(self: Any, value: Any) -> None:
        setattr(self, name, value)
        for env in self.envs if isinstance(self, EnvGroup) else ():
            env.set_kwargs(**{name: value})

    return setter


def _data_set(name: str) -> property:
    """A data set as a `Dataset`, made when it is looked at. A program may put another there, whose prompts are whole."""

    def look(self: Any) -> Any:
        if name not in self.__dict__:
            rows = self._read_examples(name)
            self.__dict__[name] = None if rows is None else _as_dataset(rows, -1, None)
        return self.__dict__[name]

    def put(self: Any, given: Any) -> None:
        if hasattr(
            self, "_example_reader"
        ):  # else it is about to be made, out of what its class is given
            whole = replace(self._example_reader, system_prompt=None, few_shot=())
            self._examples[name] = None if given is None else whole.read(given, name)
            self.__dict__[name] = given

    return property(look, put)


class Environment(envs.Environment):
    """Takes every keyword that theirs does; what neither knows becomes an attribute, as there."""

    logger: Logger = get_logger("assay")
    max_seq_len: int | None = None
    score_rollouts = True
    pass_threshold = 0.5
    pass_measure = "reward"
    concurrency: int | None = (
        None  # the rollouts under way at once, where `max_concurrent` does not say
    )

    def __init__(self, dataset: Any = None, **given: Any) -> None:
        asked_for = given.pop("message_type", None)
        self.message_type: str = asked_for or "chat"
        # Before 0.1.11 an environment of this type asked with a text, and its completions were texts.
        # A `prompt` that is a text is answered by a text, as in the seeds' own examples; verifiers 0.1.14 makes a chat of it.
        by_text = type(self).keeps_text if asked_for is None else asked_for == "completion"
        self.keeps_text = compat.strict and by_text
        self.reader_options = {"numbered": True, "media": False, "shots_in_prompts": compat.strict}
        self.scores_failures = not compat.strict
        self._by_fields = "prompt" in signature(self.rollout).parameters
        self.env_args = given.pop("env_args", None) or {}
        tools = given.pop("tool_defs", None) or given.pop("oai_tools", None)
        if tools is not None:
            self.tool_defs = tools
        ours = {name: value for name, value in given.items() if name in OURS and value is not None}
        if ours.get("max_turns", 1) < 1:
            ours["max_turns"] = -1  # 0 is no limit there either
        super().__init__(dataset, **ours)
        for name, value in given.items():
            if name not in OURS and name not in UNNEEDED:
                setattr(self, name, value)

    @property
    def scoring(self) -> Any:
        return super().scoring if self.score_rollouts else None

    async def after_scoring(self, states: Sequence[State]) -> None:
        for state in states:
            if not self.score_rollouts:
                await tidy_up("dummy_score_rollout", [self.rubric], state)
            await tidy_up("cleanup", [self.rubric], state)
        _tell.get()(states)

    async def cleanup(self, state: State, task: Any = None, resources: Any = None) -> None:
        await self.call_all("cleanup", state, task, resources)

    async def _cleanup(self, state: State) -> None:
        await self.cleanup(state)  # by its name before 0.1.11, for a loop of a program's own

    async def call_hook(self, hook: Callable[..., Any], *args: Any) -> Any:
        # One that names the environment gets what it names; the state may have any name.
        if "env" in signature(hook).parameters:
            return await call_by_name(
                hook, env=self, **dict(zip(("state", "task", "resources"), args, strict=False))
            )
        return await await_if_needed(hook(*args[:1]))

    @teardown(priority=100)
    async def _tear_down_rubric(self) -> None:
        await tidy_up("teardown", [self.rubric])

    def add_rubric(self, rubric: OurRubric) -> None:
        """Score by this rubric too. `rubric` is a group then, as theirs is, which a program may replace as a whole."""
        if type(self.rubric) is RubricGroup and not compat.strict:
            self.rubric.rubrics.append(rubric)  # also where another environment has the same group
            return
        first = self.rubric.rubrics if type(self.rubric) is RubricGroup else [self.rubric]
        self.rubric = RubricGroup([*first, rubric])
        self._pass_on_parser()

    def _pass_on_parser(self) -> None:
        if compat.strict:
            super()._pass_on_parser()

    def get_dataset(self, n: int = -1, seed: int | None = None) -> Any:
        return _as_dataset(super().get_dataset(), n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> Any:
        return _as_dataset(super().get_eval_dataset(), n, seed)

    dataset: Any = _data_set("dataset")
    eval_dataset: Any = _data_set("eval_dataset")

    # None without one; a function that was given builds it when it is first asked for.
    build_dataset = partialmethod(getattr, "dataset")
    build_eval_dataset = partialmethod(getattr, "eval_dataset")

    # The tools that the model may call, in two forms. A program may change either list in place.

    _tool_defs: list[Tool] | None = None
    _oai_tools: list[Any] | None = None
    _oai_tools_as_given: list[Any] | None = None  # to see whether a program changed the list

    @property
    def tool_defs(self) -> list[Tool] | None:
        """The tools in the form used since 0.1.11; None if there are none."""
        if self._oai_tools != self._oai_tools_as_given:
            self.tool_defs = self._oai_tools
        return self._tool_defs

    @tool_defs.setter
    def tool_defs(self, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self._tool_defs = _tools(tools)
        self._oai_tools = None
        self._oai_tools_as_given = None

    @property
    def oai_tools(self) -> list[Any] | None:
        """The tools in OpenAI's form, `{"type": "function", "function": {...}}`."""
        if self.tool_defs is None:
            return None
        forms = [to_oai_tool(tool) for tool in self.tool_defs]
        if self._oai_tools is None:
            self._oai_tools = []
        self._oai_tools[:] = forms
        self._oai_tools_as_given = copy_nested(forms)
        return self._oai_tools

    @oai_tools.setter
    def oai_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self.tool_defs = tools

    # What a trainer sets and asks.

    def set_kwargs(self, **given: Any) -> None:
        """Set attributes, each by its own method `set_<name>` where there is one."""
        for name, value in given.items():
            getattr(self, f"set_{name}", partial(setattr, self, name))(value)

    set_concurrency = _setter("concurrency")
    set_max_seq_len = _setter("max_seq_len")
    set_max_total_completion_tokens = _setter("max_total_completion_tokens")
    set_score_rollouts = _setter("score_rollouts")
    make_dataset = staticmethod(example_data.make_dataset)
    requires_group_rollouts = property(attrgetter("rubric.compares"))
    provides_advantages = property(attrgetter("rubric.has_advantages"))

    def increment_state_usage(
        self, state: State, input_tokens: float = 0, output_tokens: float = 0
    ) -> None:
        """Count tokens to a rollout: of another model, or of calls that went past `get_model_response`."""
        if input_tokens < 0 or output_tokens < 0:
            raise ValueError(
                f"tokens are counted up: give 0 or more, not {input_tokens!r} and {output_tokens!r}"
            )
        usage = state.setdefault("usage", {"input_tokens": 0.0, "output_tokens": 0.0})
        usage["input_tokens"] += input_tokens
        usage["output_tokens"] += output_tokens

    def increment_state_usage_from_response(self, state: State, response: Any) -> None:
        self.increment_state_usage(state, *example_data.extract_usage_tokens(response))

    def get_state_usage(self, state: State) -> dict[str, float] | None:
        """The tokens of a rollout until now; None when no model has told any."""
        usage: dict[str, float] = state.get("usage") or {}
        return dict(usage) if any(usage.values()) else None

    def as_messages(self, value: object, where: str) -> list[Message]:
        return typed(value, where)

    async def init_state(
        self, input: Any, client: Any, model: Any, sampling_args: Any = None
    ) -> State:
        settings = sampling_args or self.sampling_args
        if own := records.own_client(client):
            client = records.ClientUnderTest(own, model, settings)
        elif isinstance(client, records.ClientConfig):
            client = records.ConfiguredModel(records.resolve_client_config(client), model, settings)
        state = await super().init_state(input, client, model, sampling_args)
        state["client"] = own or state["client"]
        state["usage"] = {"input_tokens": 0.0, "output_tokens": 0.0}
        if not (self.keeps_text and isinstance(state["prompt"], str)):
            state["prompt"] = typed(state["prompt"], "the prompt")
        info: dict[str, Any] = state.get("info") or {}
        own = info.get("tool_defs", info.get("oai_tools"))
        state["tool_defs"] = _tools(self.tool_defs if own is None else own) or []
        return state

    def tools_of(self, state: State) -> tuple[DeclaredTool, ...]:
        # Before 0.1.11 a program could name the tools of a rollout in `setup_state`, in its info too.
        info: object = state.get("info")
        in_info = (
            cast("Mapping[str, Any]", info).get("oai_tools") if isinstance(info, Mapping) else None
        )
        tools = _tools(state.get("oai_tools")) or _tools(in_info)
        return _declared(tools or state.get("tool_defs") or ())

    async def get_model_response(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        state: Any = None,
        prompt: Any = None,
        client: Any = None,
        model: Any = None,
        tool_defs: Sequence[Tool] | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> Response:
        """What the model says, or another model, or the same otherwise asked. An error of ours is one of theirs."""
        if not isinstance(cast("object", state), dict):
            # Before 0.1.8 it was of a client, a model and a prompt, by name or in this order.
            client, model, prompt = (
                (client, model, prompt) if state is None else (state, prompt, client)
            )
            state, tool_defs = (
                await self.init_state({"prompt": prompt}, client, model),
                _tools(others.get("oai_tools")),
            )
        asked, known = state, state["client"] if client is None else client
        if own := records.own_client(known):
            known = {
                "model": model or state["model"],
                "sampling_args": sampling_args or state["sampling_args"] or {},
            }
            known["tools"] = (state.get("tool_defs") if tool_defs is None else tool_defs) or None
            return await self._ask(
                own, state, prompt=self.as_messages(prompt, "the prompt"), **known
            )
        if not (client is None and model is None and sampling_args is None):
            settings = state["sampling_args"] if sampling_args is None else sampling_args
            other = self._with_other_settings(client or known, model or state["model"], settings)
            asked = State(state, client=other)
        tools, prompt = (
            None if tool_defs is None else _declared(tool_defs),
            self.as_messages(prompt, "the prompt"),
        )
        try:
            reply = await super().get_model_response(asked, prompt, tools=tools)
        except AssayError as error:
            if isinstance(error, records.Error) or not isinstance(error, OurModelError):
                raise
            kind = (
                records.InvalidModelResponseError
                if isinstance(error, NoReply)
                else records.ModelError
            )
            raise (records.OverlongPromptError if TOO_LONG.search(str(error)) else kind)(
                str(error)
            ) from error
        except Exception as error:  # whatever a client of a program's own raises, as there
            raise records.ModelError(describe_error(error)) from error
        self.increment_state_usage(state, reply.usage.prompt, reply.usage.completion)
        if not compat.strict and not reply.text and not reply.tool_calls:
            raise records.EmptyModelResponseError(
                "Model returned no content, reasoning, and did not call any tools"
            )
        return Response.of(reply, state["turn"])

    def _with_other_settings(self, client: Any, model: Any, settings: Any) -> ModelUnderTest:
        """Return the model to ask by a client, which may be one that a state holds."""
        if isinstance(client, records.ConfiguredModel):
            return records.ConfiguredModel(client.config, model, settings, price=client.price)
        if isinstance(client, records.ClientConfig):
            config = records.resolve_client_config(client)
            return records.ConfiguredModel(config, model, settings)
        if isinstance(client, ModelUnderTest):
            return ModelUnderTest(client.client, model, settings, price=client.price)
        return ModelUnderTest(client, model, settings)

    async def _ask(self, client: records.Client, state: State, **asked: Any) -> Response:
        """Ask a client of a program's own class. The call counts as any other, and what it costs is not known."""
        ledger = Ledger.current()
        if ledger is not None and ledger.needs_prices:
            raise unknown_price_error(asked["model"])
        if ledger is not None and ledger.is_dry_run:
            count_call(Usage(), None)
            raise NotAsked(f"{asked['model']} was not asked: this is a dry run")
        said = await client.get_response(**asked, state=state)
        if not isinstance(said, Response):
            raise TypeError(
                f"get_response of {type(client).__name__} gave {format_value(said)}: return a vf.Response"
            )
        said["message"] = ResponseMessage(said["message"])
        sent, written = example_data.extract_usage_tokens(said)
        count_call(Usage(prompt=sent, completion=written), None, said.model or "")
        self.increment_state_usage(state, sent, written)
        state.setdefault("responses", []).append(said)
        return said

    async def attempt(self, *asked: Any) -> State:
        """As ours, and again after an error of the infrastructure, so often as `max_retries` says."""
        (input, client, *rest), choose = asked, _choose.get()
        asked = (_renamed(input, HELD, COLUMN), client if choose is None else choose(input), *rest)
        return await example_data.maybe_retry(self.roll_out, _retries.get())(*asked)

    async def roll_out(
        self, input: Any, client: Any, model: Any, sampling_args: Any = None
    ) -> State:
        """A rollout. One as before 0.1.8 is given the fields of a row, and returns what was said, and its own state."""
        if not self._by_fields:
            return await self.rollout(input, client, model, sampling_args)
        state = await self.init_state(input, client, model, sampling_args)
        fields = {
            name: state.get(name) for name in ("prompt", "answer", "task", "info", "example_id")
        }
        asked = {"client": client, "model": model, "sampling_args": sampling_args, "state": state}
        said, own = await call_by_name(self.rollout, **fields, **asked)
        state.update(own, completion=self.as_messages(said, "the completion"), is_completed=True)
        return state

    async def _run_examples(
        self, examples: Any, client: Any, model: Any, options: Any, *, data: Any
    ) -> envs.Results:
        """Evaluate as in assay, with the options of verifiers.

        Every reward is a number. The output of an unscored rollout has its errors, too.
        """
        for name in ("push_to_hf_hub", "hf_hub_dataset_name"):
            if options.pop(name, None):
                raise ValueError(f"{name} is not there: push results.to_dataset() yourself")
        given: Any = {name: value for name, value in options.items() if value is not None}
        log = given.pop("on_log", self.logger.info)
        tell = self._telling(given, model=model)
        scores_alone: bool = given.pop("independent_scoring", False)
        on_start = given.pop("on_start", None)
        if on_start is not None:
            groups = [[example] * given.get("rollouts_per_example", 1) for example in examples]
            inputs = [row for group in groups for row in group]
            on_start(inputs, inputs if scores_alone else groups)
        saves: bool = given.pop("save_results", False)
        folder: Any = given.pop("results_path", None)
        if saves and folder is None:
            model_name = str(getattr(model, "id", model or client)).replace("/", "--")
            run_name = f"{self.env_id or type(self).__name__}--{model_name}"
            folder = Path("outputs", "evals", run_name, uuid4().hex[:8])
        if folder is not None:
            # verifiers resumes whatever the version is; the run records that it changed.
            given |= {"run": folder, "resume": True, "allow_changes": True}
        if self.concurrency is not None:
            given.setdefault("max_concurrent", self.concurrency)

        endpoints: list[Any] = []
        if isinstance(client, records.ClientConfig):
            endpoints = records.resolve_client_configs(client)
        models, choose = self._make_models(
            endpoints, client, model, given, len(examples) if scores_alone else 0
        )
        try:
            with (
                set_variable(_retries, given.pop("max_retries", 0)),
                set_variable(_tell, tell),
                set_variable(_choose, choose),
                set_variable(scores_independently, scores_alone),
            ):
                rows = [_renamed(example, COLUMN, HELD) for example in examples]
                results = await super()._run_examples(rows, models[0], model, given, data=data)
        finally:
            if endpoints:
                for configured_model in models:
                    await configured_model.close()
        if len(endpoints) > 1:
            results.metadata["base_url"] = ",".join(endpoint.api_base_url for endpoint in endpoints)
        self._add_their_results(results, given.get("state_columns", ()))
        if saves and folder is not None:
            _save(Path(folder), results)
            log(f"Saved final results to {folder}")
        return results

    def _make_models(
        self,
        endpoints: Sequence[Any],
        client: Any,
        model: Any,
        options: Mapping[str, Any],
        rollouts_alone: int,
    ) -> tuple[list[Any], Callable[..., Any] | None]:
        """Return the models to ask, and the function that chooses one of them for a rollout.

        The function is None if there is only a client of assay. verifiers keeps the rollouts of an
        example on one endpoint, unless they are scored alone; `rollouts_alone` is their number then.
        """
        if not endpoints and not records.own_client(client):
            return [client], None
        max_concurrent = options.get("max_concurrent")
        if max_concurrent == -1:
            max_concurrent = None
        settings = {**self.sampling_args, **options.get("sampling_args", {})}
        if endpoints:
            models: list[Any] = [
                records.ConfiguredModel(endpoint, model, settings, at_once=max_concurrent)
                for endpoint in endpoints
            ]
        else:
            models = [records.ClientUnderTest(client, model, settings, at_once=max_concurrent)]
        return models, partial(records.in_turn, {}, models, rollouts_alone)

    def _add_their_results(self, results: envs.Results, state_columns: Sequence[str]) -> None:
        """Make every reward a number, and add the metadata of verifiers."""
        unscored = 0
        passes = Passes()
        example_numbers: dict[Any, int] = {}
        for output, state in zip(results.outputs, results.states, strict=True):
            unscored += _is_unscored(output)
            _pay(output, state)
            example = example_numbers.setdefault(output["example_id"], len(example_numbers))
            passes.add(output["reward"] >= self.pass_threshold, example)
            output |= {name: state.get(name) for name in state_columns}
        count = len(results.outputs)
        if unscored:
            warn_unscored(unscored, count)
        if count and not compat.strict:
            results.metadata["avg_reward"] = fmean(output["reward"] for output in results.outputs)
        rates: dict[str, Any] = {}
        if count > len(example_numbers):
            for k, rate in passes.rates().items():
                if k & (k - 1) == 0:  # powers of two
                    rates[str(k)] = rate
        results.metadata |= {
            "env_args": self.env_args,
            "time": results.metadata["time_ms"] / 1000,
            "pass_at_k": {k: rate.any for k, rate in rates.items()},
            "pass_all_k": {k: rate.all for k, rate in rates.items()},
            "pass_threshold": self.pass_threshold,
            "state_columns": list(state_columns),
            "tools": self.tool_defs,
        }

    def _telling(self, given: dict[str, Any], **about: Any) -> Callable[[Sequence[State]], None]:
        """What tells an `on_progress` of theirs all outputs, the new ones of a group, and what is known by then."""
        told: Any = given.get("on_progress")
        if told is None or not (isinstance(told, list) or len(signature(told).parameters) > 1):
            return lambda states: None
        callbacks: list[Any] = (
            given.pop("on_progress") if isinstance(told, list) else [given.pop("on_progress")]
        )
        outputs: list[dict[str, Any]] = []
        about |= {"env_id": self.env_id, "env_args": self.env_args, "avg_reward": 0.0}

        def tell(states: Sequence[State]) -> None:
            new = [state_to_output(state, given.get("state_columns")) for state in states]
            outputs.extend(new)
            about["avg_reward"] += sum(
                output["reward"] - about["avg_reward"] for output in new
            ) / len(outputs)
            for callback in callbacks:
                callback(outputs, new, about)

        return tell

    async def run_group(
        self,
        group_inputs: Any,
        client: Any,
        model: Any,
        sampling_args: Any = None,
        max_retries: int = 0,
        state_columns: Any = None,
        *,
        independent_scoring: bool = False,
        **unneeded: Any,
    ) -> list[dict[str, Any]]:
        """Generate and score the rollouts of one example, and return the output of each."""
        given: Any = {
            "sampling_args": sampling_args,
            "max_retries": max_retries,
            "state_columns": state_columns,
            "independent_scoring": independent_scoring,
        }
        client = (
            records.resolve_client_config(client)
            if isinstance(client, records.ClientConfig)
            else client
        )
        return (await self._generate(group_inputs, client, model, None, given)).outputs

    async def run_rollout(
        self, input: Mapping[str, Any], *asked: Any, **given: Any
    ) -> dict[str, Any]:
        """Generate one rollout, score it by `score_rollout`, and return its output.

        The arguments after the first are those of `run_group`.
        """
        [output] = await self.run_group([input], *asked, independent_scoring=True, **given)
        return output


def _is_unscored(output: Mapping[str, Any]) -> bool:
    """Return whether a rollout has no reward because of an error, not because no criterion applies."""
    return output["reward"] is None and bool(output["error"] or output["errors"])


def _renamed(row: dict[str, Any], name: str, to: str) -> dict[str, Any]:
    """Return a row with a column renamed, if it has the column."""
    if name not in row:
        return row
    return {to if column == name else column: value for column, value in row.items()}


def _save(folder: Path, results: envs.Results) -> None:
    both = ("prompt", "completion")
    chats = [
        {name: sanitize_tool_calls(output[name]) for name in both} for output in results.outputs
    ]
    lines = [
        json.dumps(to_jsonable(output | chat))
        for output, chat in zip(results.outputs, chats, strict=True)
    ]
    (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "metadata.json").write_text(
        json.dumps(to_jsonable(results.metadata)), encoding="utf-8"
    )


def state_to_output(state: State, state_columns: Sequence[str] | None = None) -> dict[str, Any]:
    """What theirs saves of a rollout, out of its state."""
    names = (
        "example_id",
        "prompt",
        "completion",
        "answer",
        "info",
        "error",
        "timing",
        "is_truncated",
    )
    output = {name: state.get(name) for name in (*names, "stop_condition", *(state_columns or ()))}
    _pay(output, state)
    usage: dict[str, float] = state.get("usage") or {}
    return state["metrics"] | output | ({"token_usage": dict(usage)} if any(usage.values()) else {})


def _pay(output: dict[str, Any], state: State) -> None:
    """Write a number as the reward, and the error in the shape of theirs."""
    # What a hook wrote after scoring counts too, unless it is no number, or no mapping.
    found: Any = (
        output.get("reward") if to_finite_float(state.get("reward")) is None else state["reward"]
    )
    reward = (
        found
        if found is not None
        else state.pop("partial_reward", output.pop("partial_reward", 0.0))
    )
    metrics: Any = state.get("metrics") or {}
    metrics = cast(
        "dict[str, float]", metrics if isinstance(metrics, Mapping) else output.get("metrics", {})
    )
    if not compat.strict:
        errors: dict[str, str] = state.get("errors") or {}
        metrics = zeroed(
            metrics, {name: why for name, why in errors.items() if why != NOTHING_APPLIES}
        )
        output |= metrics
    output |= {
        "reward": reward,
        "metrics": metrics,
        "is_completed": True,
        "tool_defs": state.get("tool_defs"),
    }
    state.update(reward=reward, metrics=metrics)
    if isinstance(error := state.get("error"), BaseException):
        output["error"] = example_data.error_info(error)


def _as_dataset(rows: list[dict[str, Any]], n: int, seed: int | None) -> Any:
    """Rows as a Hugging Face data set, where the package is installed: the first `n`, shuffled before by a `seed`."""
    try:
        datasets: Any = import_module("datasets")
    except ImportError:
        return select_first(rows, n, seed)
    # A column in which nothing stands was not in the source, and has no type that a table could hold.
    empty = [name for name in ("info", "answer") if not any(row[name] for row in rows)]
    dataset = datasets.Dataset.from_list(
        [{k: v for k, v in row.items() if k not in empty} for row in rows]
    )
    dataset = dataset if seed is None else dataset.shuffle(seed=seed)
    return dataset.select(range(min(n, len(dataset)))) if n > 0 else dataset


def _tools(given: Sequence[Mapping[str, Any]] | None) -> list[Tool] | None:
    """Tools in the form of theirs; before 0.1.11 that was OpenAI's, with all in a `function`."""
    return (
        None
        if given is None
        else [t if isinstance(t, Tool) else Tool(t.get("function", t)) for t in given]
    )


def _declared(tools: Sequence[Tool]) -> tuple[DeclaredTool, ...]:
    every: list[Any] = [
        (tool["name"], tool.get("description") or "", tool.get("parameters") or {})
        for tool in tools
    ]
    return tuple(
        DeclaredTool(name, told, json.dumps(parameters)) for name, told, parameters in every
    )


class MultiTurnEnv(Environment, envs.MultiTurnEnv):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Ours, with their keywords and hooks."""

    timeout_seconds: float | None = None
    max_total_completion_tokens = (
        -1
    )  # the tokens after which the model is not asked again; -1 is no limit

    @stop
    async def max_total_completion_tokens_reached(self, state: State) -> bool:
        return (
            0 < self.max_total_completion_tokens <= state.get("usage", {}).get("output_tokens", 0)
        )

    def mark_timed_out(self, state: State) -> None:
        state.update(timed_out=True, is_completed=True, stop_condition="timeout_reached")

    @cleanup(priority=100)
    async def render_state(self, state: State) -> None:
        """Set what is known of a rollout when it is over, before other hooks read it."""
        try:
            await await_if_needed(self.render_completion(state))
        except FAILURES as error:  # the rollout's own; a hook that raises is only a line in the log
            if is_stop_request(error):
                raise
            state.update(completion=[], error=error, stop_condition="has_error")

    async def _clean_up(self, state: State) -> None:
        await self.cleanup(state)

    async def _run_dialogue(self, state: State) -> State:
        limit = asyncio.timeout(self.timeout_seconds)
        try:
            async with limit:
                return await super()._run_dialogue(state)
        except TimeoutError:
            if not limit.expired():
                raise
            self.mark_timed_out(state)
        return state

    async def _take_turn(self, state: State) -> None:
        try:
            await super()._take_turn(state)
        except (
            records.OverlongPromptError
        ):  # also of an environment that counts by itself, or asks another model
            state["prompt_too_long"] = state["is_truncated"] = True

    async def add_model_response(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state: State, prompt_messages: Any, response: Any
    ) -> None:
        cut = "length" if response.message.get("is_truncated") else "stop"
        await self._add_step(state, prompt_messages, as_said(response.message), response, cut)


class SingleTurnEnv(MultiTurnEnv):
    """The model is asked once for each example."""

    keeps_text = True

    def __init__(self, dataset: Any = None, **given: Any) -> None:
        super().__init__(dataset, **{**given, "max_turns": 1})

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        raise NotImplementedError("env_response is not implemented for SingleTurnEnv")


class EnvGroup(Environment):
    """Several environments as one: each example goes to the one that its `info["env_id"]` names."""

    def __init__(
        self, envs: Sequence[Environment], env_names: Sequence[str] | None = None, **given: Any
    ) -> None:
        if not envs:
            raise ValueError("EnvGroup requires at least one environment")
        self.envs = list(envs)
        self.env_names = (
            [f"env_{place}" for place in range(len(envs))] if env_names is None else list(env_names)
        )
        if len(self.env_names) != len(self.envs):
            raise ValueError("Number of env_names must match number of envs")
        self.env_map = dict(zip(self.env_names, self.envs, strict=True))
        rows = {name: self._routed(name) or None for name in ("dataset", "eval_dataset")}
        super().__init__(rows.pop("dataset"), **rows, rubric=EnvGroupRubric(self.env_map), **given)

    def _routed(self, which: str) -> list[dict[str, Any]]:
        """The examples of every environment, numbered through, each with the way to its environment."""
        rows: list[dict[str, Any]] = []
        for name, env in self.env_map.items():
            for example in env._read_examples(which) or ():
                route = [name, *_route(example)]
                info = {**example["info"], "env_id": route if len(route) > 1 else name}
                rows.append({**example, "info": info, "task": name, "example_id": len(rows)})
        return rows

    def get_env_for_name(self, name: str) -> Environment:
        return _env_of(self.env_map, {"info": {"env_id": name}})

    def get_env_for_task(self, task: str) -> Environment:
        return self.env_map.get(task, self.envs[0])

    async def rollout(
        self, input: Any, client: Any, model: Any, sampling_args: Any = None
    ) -> State:
        env, info, route = (
            _env_of(self.env_map, input),
            dict(input.get("info") or {}),
            _route(input),
        )
        info.pop("env_id", None)
        if route[1:]:
            info["env_id"] = route[1:] if route[2:] else route[1]
        state = await env.roll_out({**input, "info": info}, client, model, sampling_args)
        if route:
            state["info"] = {**state["info"], "env_id": input["info"]["env_id"]}
        state.setdefault("environment", env)  # the innermost, where a group is in a group
        return state

    async def after_scoring(self, states: Sequence[State]) -> None:
        # A rollout that no environment was found for has none.
        env = next((state["environment"] for state in states if "environment" in state), super())
        await env.after_scoring(states)

    @teardown
    async def _close_environments(self) -> None:
        for env in self.envs:
            await env.aclose()


def _route(row: Mapping[str, Any]) -> list[str]:
    info: Mapping[str, Any] = row.get("info") or {}
    route: Any = info.get("env_id") or []
    return [route] if isinstance(route, str) else list(route)


def _env_of(env_map: Mapping[str, Environment], row: Mapping[str, Any]) -> Environment:
    """The environment of a row: by its route, by its `task`, as before 0.1.12, or else the only one."""
    name: str = next(iter(_route(row)), row.get("task", ""))
    if name not in env_map and (_route(row) or len(env_map) > 1):
        raise ValueError(
            f"No environment found for info['env_id']={name!r}: use {', '.join(env_map)}"
        )
    return env_map.get(name, next(iter(env_map.values())))


class EnvGroupRubric(Rubric):
    """Scores each rollout by the rubrics of its own environment."""

    def __init__(self, env_map: Mapping[str, Environment]) -> None:
        super().__init__()
        self.env_map = env_map
        self.all_reward_names = sorted(
            {n for env in env_map.values() for n in env.rubric.get_reward_func_names()}
        )

    async def score_group(self, states: Any, **options: Any) -> Any:
        scoring = self._scoring(states[0])
        return None if scoring is None else await scoring.score_group(states, **options)

    async def score_rollout(self, state: Any) -> Any:
        scoring = self._scoring(state)
        return None if scoring is None else await scoring.score_rollout(state)

    def _scoring(self, state: Mapping[str, Any]) -> Any:
        return (state.get("environment") or _env_of(self.env_map, state)).scoring
