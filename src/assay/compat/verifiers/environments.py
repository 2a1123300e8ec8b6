"""Environments with the options, methods and hooks of those in `verifiers`, and with its results."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from importlib import import_module
from inspect import signature
from logging import Logger
from pathlib import Path
from statistics import fmean
from typing import Any, cast
from uuid import uuid4

from assay import compat, envs
from assay.compat.verifiers import example_data, model_clients, records
from assay.compat.verifiers.numeric_rubrics import (
    RubricGroup,
    call_on_rubrics,
    scores_independently,
    warn_unscored,
)
from assay.compat.verifiers.rollout_outputs import (
    ProgressReporter,
    is_verifiers_progress,
    save_results,
    set_numeric_reward,
)
from assay.compat.verifiers.typed_messages import (
    Response,
    ResponseMessage,
    Tool,
    to_chat_message,
    to_oai_tool,
    to_typed_chat,
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
from assay.models.budgets import Ledger, count_call, unknown_price_error
from assay.models.model import Tool as DeclaredTool
from assay.models.model import Usage
from assay.redaction import get_logger
from assay.rubric import Rubric as OurRubric
from assay.runs.row import RUBRIC_COLUMN
from assay.runs.stats import Passes
from assay.types import Message, State
from assay.wording import describe_error, format_value

# The options that our environments take, too.
OUR_OPTIONS = frozenset({"dataset", "max_turns", *EnvironmentOptions.__annotations__})
# Options of verifiers that have no effect here.
IGNORED_OPTIONS = frozenset({"max_workers", "map_kwargs", "interleaved_rollouts"})
# In assay, a column `rubric` holds the row's own rubric. In verifiers it is a column like any other,
# so it is renamed to this while assay evaluates, and back for the rollout itself.
RENAMED_RUBRIC_COLUMN = "row_rubric"

# What one call of `evaluate` or `generate` was asked to do, for the methods that it calls.
_max_retries: ContextVar[int] = ContextVar("max_retries", default=0)
_choose_model: ContextVar[Callable[[Any], ModelUnderTest] | None] = ContextVar(
    "choose_model", default=None
)
_progress_reporter: ContextVar[ProgressReporter | None] = ContextVar(
    "progress_reporter", default=None
)


def _make_dataset_property(name: str) -> property:
    """Return the property `dataset` or `eval_dataset`: a Hugging Face data set, made when it is read.

    A program may assign another one. Its prompts are used as they are, without the system prompt
    and the few-shot messages of the environment.
    """

    def read(self: Any) -> Any:
        if name not in self.__dict__:
            rows = self._read_examples(name)
            self.__dict__[name] = None if rows is None else _to_dataset(rows)
        return self.__dict__[name]

    def assign(self: Any, dataset: Any) -> None:
        if not hasattr(self, "_example_reader"):
            # A subclass assigns it before it calls `__init__`, which gets the data set anyway.
            return
        reader = replace(self._example_reader, system_prompt=None, few_shot=())
        # The examples of rollouts, and what `read` returns.
        self._examples[name] = None if dataset is None else reader.read(dataset, name)
        self.__dict__[name] = dataset

    return property(read, assign)


class Environment(envs.Environment):
    """Our environment with the options of verifiers. Any other option becomes an attribute, as there."""

    logger: Logger = get_logger("assay")
    max_seq_len: int | None = None
    score_rollouts = True
    pass_threshold = 0.5
    pass_measure = "reward"
    # How many rollouts to generate at once, unless `max_concurrent` is given.
    concurrency: int | None = None

    def __init__(self, dataset: Any = None, **options: Any) -> None:
        message_type = options.pop("message_type", None)
        self.message_type: str = message_type or "chat"
        # Before 0.1.11 an environment of the type "completion" sent a plain text, and its completions
        # were texts. Without a type, a prompt that is a text is answered with a text, as in the
        # examples of verifiers' documentation; verifiers 0.1.14 makes a chat of it.
        keeps_text = message_type == "completion"
        if message_type is None:
            keeps_text = type(self).keeps_text
        self.keeps_text = compat.strict and keeps_text
        # As in verifiers: examples are numbered, and columns such as `image` are not put into prompts.
        self.reader_options = {"numbered": True, "media": False, "shots_in_prompts": compat.strict}
        self.scores_failures = not compat.strict  # verifiers scores failed rollouts
        # Before 0.1.8 a subclass defined `rollout(client, model, prompt, answer, ...)`.
        self._rollout_takes_fields = "prompt" in signature(self.rollout).parameters
        self.env_args = options.pop("env_args", None) or {}
        tools = options.pop("tool_defs", None) or options.pop("oai_tools", None)
        if tools is not None:
            self.tool_defs = tools

        our_options: dict[str, Any] = {}
        for name, value in options.items():
            if name in OUR_OPTIONS and value is not None:
                our_options[name] = value
        if our_options.get("max_turns", 1) < 1:
            our_options["max_turns"] = -1  # in verifiers, 0 means no limit, too
        super().__init__(dataset, **our_options)
        for name, value in options.items():
            if name not in OUR_OPTIONS and name not in IGNORED_OPTIONS:
                setattr(self, name, value)

    # Scoring and tidying up.

    @property
    def scoring(self) -> Any:
        """The rubric that scores rollouts; None if they are not to be scored."""
        return super().scoring if self.score_rollouts else None

    async def after_scoring(self, states: Sequence[State]) -> None:
        """Call the rubric's cleanup hooks for each rollout of a group, and report progress."""
        for state in states:
            if not self.score_rollouts:
                await call_on_rubrics("dummy_score_rollout", [self.rubric], state)
            await call_on_rubrics("cleanup", [self.rubric], state)
        reporter = _progress_reporter.get()
        if reporter is not None:
            reporter.report(states)

    async def cleanup(self, state: State, task: Any = None, resources: Any = None) -> None:
        """Call the cleanup hooks of a rollout."""
        await self.call_all("cleanup", state, task, resources)

    async def _cleanup(self, state: State) -> None:
        # Its name before 0.1.11, for programs that override `rollout`.
        await self.cleanup(state)

    async def call_hook(self, hook: Callable[..., Any], *args: Any) -> Any:
        """Call a hook of a rollout with its state, its task and its resources, or a teardown hook."""
        # A hook with a parameter `env` gets its arguments by name. Any other one gets the state,
        # whatever its parameter is called; teardown hooks get nothing.
        if "env" in signature(hook).parameters:
            arguments = dict(zip(("state", "task", "resources"), args, strict=False))
            return await call_by_name(hook, env=self, **arguments)
        return await await_if_needed(hook(*args[:1]))

    @teardown(priority=100)
    async def _tear_down_rubric(self) -> None:
        await call_on_rubrics("teardown", [self.rubric])

    def add_rubric(self, rubric: OurRubric) -> None:
        """Score by this rubric, too.

        `self.rubric` becomes a group, as in verifiers, and a program may replace it as a whole.
        """
        rubrics: list[Any] = [self.rubric]
        if type(self.rubric) is RubricGroup:
            rubrics = self.rubric.rubrics
            if not compat.strict:
                # verifiers changes the group itself, even if another environment uses it, too.
                rubrics.append(rubric)
                return
        self.rubric = RubricGroup([*rubrics, rubric])
        self._pass_on_parser()

    def _pass_on_parser(self) -> None:
        # In verifiers, a rubric does not get the parser of its environment.
        if compat.strict:
            super()._pass_on_parser()

    # The data.

    dataset: Any = _make_dataset_property("dataset")
    eval_dataset: Any = _make_dataset_property("eval_dataset")

    def build_dataset(self) -> Any:
        """Return the data set to train on; None if there is none."""
        return self.dataset

    def build_eval_dataset(self) -> Any:
        """Return the data set to evaluate on; None if there is none."""
        return self.eval_dataset

    def get_dataset(self, n: int = -1, seed: int | None = None) -> Any:
        return _to_dataset(super().get_dataset(), n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> Any:
        return _to_dataset(super().get_eval_dataset(), n, seed)

    # The tools that the model may call, in two forms. A program may change either list in place.

    _tool_defs: list[Tool] | None = None
    _oai_tools: list[Any] | None = None
    # A copy of the list that was returned, to see whether a program has changed it.
    _returned_oai_tools: list[Any] | None = None

    @property
    def tool_defs(self) -> list[Tool] | None:
        """The tools in the form used since 0.1.11; None if there are none."""
        if self._oai_tools != self._returned_oai_tools:
            self.tool_defs = self._oai_tools
        return self._tool_defs

    @tool_defs.setter
    def tool_defs(self, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self._tool_defs = _read_tools(tools)
        self._oai_tools = None
        self._returned_oai_tools = None

    @property
    def oai_tools(self) -> list[Any] | None:
        """The tools in OpenAI's form, `{"type": "function", "function": {...}}`."""
        if self.tool_defs is None:
            return None
        tools = [to_oai_tool(tool) for tool in self.tool_defs]
        if self._oai_tools is None:
            self._oai_tools = []
        self._oai_tools[:] = tools
        self._returned_oai_tools = copy_nested(tools)
        return self._oai_tools

    @oai_tools.setter
    def oai_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self.tool_defs = tools

    # What trainers set and read.

    def set_kwargs(self, **values: Any) -> None:
        """Set attributes, each by the method `set_<name>` if there is one."""
        for name, value in values.items():
            setter = getattr(self, f"set_{name}", None)
            if setter is None:
                setattr(self, name, value)
            else:
                setter(value)

    def _set_option(self, name: str, value: Any) -> None:
        """Set an attribute. A group of environments sets it in all of them."""
        setattr(self, name, value)

    def set_concurrency(self, value: Any) -> None:
        self._set_option("concurrency", value)

    def set_max_seq_len(self, value: Any) -> None:
        self._set_option("max_seq_len", value)

    def set_max_total_completion_tokens(self, value: Any) -> None:
        self._set_option("max_total_completion_tokens", value)

    def set_score_rollouts(self, value: Any) -> None:
        self._set_option("score_rollouts", value)

    make_dataset = staticmethod(example_data.make_dataset)

    @property
    def requires_group_rollouts(self) -> bool:
        """Whether a criterion compares the rollouts of a group."""
        return self.rubric.compares

    @property
    def provides_advantages(self) -> bool:
        """Whether the rubric itself computes advantages."""
        rubric: Any = self.rubric
        return rubric.has_advantages

    # The tokens of a rollout.

    def increment_state_usage(
        self, state: State, input_tokens: float = 0, output_tokens: float = 0
    ) -> None:
        """Add tokens to those of a rollout.

        A program needs this for another model, or for calls without `get_model_response`.
        """
        if input_tokens < 0 or output_tokens < 0:
            raise ValueError(
                f"token counts are {input_tokens!r} and {output_tokens!r}: give 0 or more"
            )
        usage = state.setdefault("usage", {"input_tokens": 0.0, "output_tokens": 0.0})
        usage["input_tokens"] += input_tokens
        usage["output_tokens"] += output_tokens

    def increment_state_usage_from_response(self, state: State, response: Any) -> None:
        """Add the tokens that a response of an SDK or of verifiers reports."""
        input_tokens, output_tokens = example_data.extract_usage_tokens(response)
        self.increment_state_usage(state, input_tokens, output_tokens)

    def get_state_usage(self, state: State) -> dict[str, float] | None:
        """Return the tokens of a rollout so far; None if no model has reported any."""
        usage: dict[str, float] = state.get("usage") or {}
        return dict(usage) if any(usage.values()) else None

    # One rollout.

    def as_messages(self, value: object, where: str) -> list[Message]:
        """Return a text or a chat as messages whose fields are attributes, too."""
        return to_typed_chat(value, where)

    async def init_state(
        self, input: Any, client: Any, model: Any, sampling_args: Any = None
    ) -> State:
        """Return the state at the start of a rollout, with a model to ask for any kind of client."""
        settings = sampling_args or self.sampling_args
        custom_client = model_clients.find_custom_client(client)
        if custom_client is not None:
            client = model_clients.ClientUnderTest(custom_client, model, settings)
        elif isinstance(client, model_clients.ClientConfig):
            config = model_clients.resolve_client_config(client)
            client = model_clients.ConfiguredModel(config, model, settings)
        state = await super().init_state(input, client, model, sampling_args)
        if custom_client is not None:
            state["client"] = custom_client
        state["usage"] = {"input_tokens": 0.0, "output_tokens": 0.0}
        is_plain_text = self.keeps_text and isinstance(state["prompt"], str)
        if not is_plain_text:
            state["prompt"] = to_typed_chat(state["prompt"], "the prompt")
        info: dict[str, Any] = state.get("info") or {}
        tools: Any = info.get("tool_defs", info.get("oai_tools"))
        if tools is None:
            tools = self.tool_defs
        state["tool_defs"] = _read_tools(tools) or []
        return state

    def tools_of(self, state: State) -> tuple[DeclaredTool, ...]:
        """Return the tools of a rollout: those that `setup_state` has set, or the environment's."""
        # Before 0.1.11, `setup_state` could set the tools of a rollout as `state["oai_tools"]`, or
        # in the state's `info`.
        tools = _read_tools(state.get("oai_tools"))
        if not tools:
            info: object = state.get("info")
            if isinstance(info, Mapping):
                tools = _read_tools(cast("Mapping[str, Any]", info).get("oai_tools"))
        return _declare_tools(tools or state.get("tool_defs") or ())

    async def get_model_response(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        state: Any = None,
        prompt: Any = None,
        client: Any = None,
        model: Any = None,
        tool_defs: Sequence[Tool] | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        **other_arguments: Any,
    ) -> Response:
        """Return the model's response to a prompt, by default with the settings of the rollout.

        A `client`, `model`, `tool_defs` or `sampling_args` takes precedence for this call.
        """
        if not isinstance(cast("object", state), dict):
            # Before 0.1.8 there was no state: the arguments were a client, a model and a prompt,
            # either by name or in this order.
            if state is not None:
                client, model, prompt = state, prompt, client
            state = await self.init_state({"prompt": prompt}, client, model)
            tool_defs = _read_tools(other_arguments.get("oai_tools"))
        messages = self.as_messages(prompt, "the prompt")

        if client is None:
            custom_client = model_clients.find_custom_client(state["client"])
        else:
            custom_client = model_clients.find_custom_client(client)
        if custom_client is not None:
            tools = state.get("tool_defs") if tool_defs is None else tool_defs
            return await self._ask_custom_client(
                custom_client,
                state,
                prompt=messages,
                model=model or state["model"],
                sampling_args=sampling_args or state["sampling_args"] or {},
                tools=tools or None,
            )

        asked_state = state
        if client is not None or model is not None or sampling_args is not None:
            under_test = self._with_other_settings(
                client or state["client"],
                model or state["model"],
                state["sampling_args"] if sampling_args is None else sampling_args,
            )
            asked_state = State(state, client=under_test)
        declared_tools = None if tool_defs is None else _declare_tools(tool_defs)
        try:
            reply = await super().get_model_response(asked_state, messages, tools=declared_tools)
        except Exception as error:
            converted = _to_verifiers_error(error)
            if converted is error:
                raise
            raise converted from error
        self.increment_state_usage(state, reply.usage.prompt, reply.usage.completion)
        if not compat.strict and not reply.text and not reply.tool_calls:
            raise records.EmptyModelResponseError(
                "Model returned no content, reasoning, and did not call any tools"
            )
        return Response.of(reply, state["turn"])

    def _with_other_settings(self, client: Any, model: Any, settings: Any) -> ModelUnderTest:
        """Return the model to ask for these settings, by a client that a program or a state has."""
        if isinstance(client, model_clients.ConfiguredModel):
            return model_clients.ConfiguredModel(client.config, model, settings, price=client.price)
        if isinstance(client, model_clients.ClientConfig):
            config = model_clients.resolve_client_config(client)
            return model_clients.ConfiguredModel(config, model, settings)
        if isinstance(client, ModelUnderTest):
            return ModelUnderTest(client.client, model, settings, price=client.price)
        return ModelUnderTest(client, model, settings)

    async def _ask_custom_client(
        self, client: model_clients.Client, state: State, **arguments: Any
    ) -> Response:
        """Ask a client whose class a program has derived from `vf.Client`.

        The call counts like any other one, but its cost is not known.
        """
        model = arguments["model"]
        ledger = Ledger.current()
        if ledger is not None and ledger.needs_prices:
            raise unknown_price_error(model)
        if ledger is not None and ledger.is_dry_run:
            count_call(Usage(), None)
            raise NotAsked(f"{model} was not asked: this is a dry run")
        response = await client.get_response(**arguments, state=state)
        if not isinstance(response, Response):
            raise TypeError(
                f"get_response of {type(client).__name__} returned {format_value(response)}: "
                "return a vf.Response"
            )
        response["message"] = ResponseMessage(response["message"])
        input_tokens, output_tokens = example_data.extract_usage_tokens(response)
        usage = Usage(prompt=input_tokens, completion=output_tokens)
        count_call(usage, None, response.model or "")
        self.increment_state_usage(state, input_tokens, output_tokens)
        state.setdefault("responses", []).append(response)
        return response

    async def attempt(self, *args: Any) -> State:
        """Generate a rollout; repeat it up to `max_retries` times if the infrastructure failed.

        `args` are those of `rollout`.
        """
        example, client, *other_args = args
        example = _rename_column(example, RENAMED_RUBRIC_COLUMN, RUBRIC_COLUMN)
        choose_model = _choose_model.get()
        if choose_model is not None:
            client = choose_model(example)
        generate = example_data.maybe_retry(self.roll_out, _max_retries.get())
        return await generate(example, client, *other_args)

    async def roll_out(
        self, input: Any, client: Any, model: Any, sampling_args: Any = None
    ) -> State:
        """Return the state of one rollout, also if `rollout` has the form that it had before 0.1.8.

        It was called with the fields of a row then, and returned the completion and a dict, which
        was its state.
        """
        if not self._rollout_takes_fields:
            return await self.rollout(input, client, model, sampling_args)
        state = await self.init_state(input, client, model, sampling_args)
        names = ("prompt", "answer", "task", "info", "example_id")
        fields = {name: state.get(name) for name in names}
        completion, returned_state = await call_by_name(
            self.rollout,
            **fields,
            client=client,
            model=model,
            sampling_args=sampling_args,
            state=state,
        )
        messages = self.as_messages(completion, "the completion")
        state.update(returned_state, completion=messages, is_completed=True)
        return state

    # Evaluating.

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
        **ignored: Any,
    ) -> list[dict[str, Any]]:
        """Generate and score the rollouts of one example, and return the output of each."""
        options: Any = {
            "sampling_args": sampling_args,
            "max_retries": max_retries,
            "state_columns": state_columns,
            "independent_scoring": independent_scoring,
        }
        if isinstance(client, model_clients.ClientConfig):
            # One group is sent to one endpoint.
            client = model_clients.resolve_client_config(client)
        results = await self._generate(group_inputs, client, model, None, options)
        return results.outputs

    async def run_rollout(
        self, input: Mapping[str, Any], *args: Any, **options: Any
    ) -> dict[str, Any]:
        """Generate one rollout, score it by `score_rollout`, and return its output.

        The arguments after the first are those of `run_group`.
        """
        [output] = await self.run_group([input], *args, independent_scoring=True, **options)
        return output

    async def _run_examples(
        self, examples: Any, client: Any, model: Any, options: Any, *, data: Any
    ) -> envs.Results:
        """Evaluate as in assay, with the options of verifiers.

        Every reward is a number. The output of an unscored rollout has its errors, too.
        """
        for name in ("push_to_hf_hub", "hf_hub_dataset_name"):
            if options.pop(name, None):
                raise ValueError(
                    f"{name} is not supported: push results.to_dataset() to the hub yourself"
                )
        # First take the options of verifiers; those that are left are for assay.
        options = {name: value for name, value in options.items() if value is not None}
        log = options.pop("on_log", self.logger.info)
        max_retries: int = options.pop("max_retries", 0)
        scores_alone: bool = options.pop("independent_scoring", False)
        on_start = options.pop("on_start", None)
        if on_start is not None:
            _call_on_start(
                on_start,
                examples,
                rollouts_per_example=options.get("rollouts_per_example", 1),
                scores_alone=scores_alone,
            )
        reporter: ProgressReporter | None = None
        if is_verifiers_progress(options.get("on_progress")):
            reporter = ProgressReporter(
                options.pop("on_progress"),
                state_columns=options.get("state_columns"),
                metadata={"model": model, "env_id": self.env_id, "env_args": self.env_args},
            )
        saves_results: bool = options.pop("save_results", False)
        folder: Any = options.pop("results_path", None)
        if saves_results and folder is None:
            folder = self._make_folder_name(client, model)
        if folder is not None:
            # verifiers resumes whatever the version is; the run records that it changed.
            options |= {"run": folder, "resume": True, "allow_changes": True}
        if self.concurrency is not None:
            options.setdefault("max_concurrent", self.concurrency)

        endpoints: list[Any] = []
        if isinstance(client, model_clients.ClientConfig):
            endpoints = model_clients.resolve_client_configs(client)
        models = self._make_models(endpoints, client, model, options)
        # The function that chooses one of them for a rollout; None if assay asks the client itself.
        choose_model: Callable[..., Any] | None = None
        if models:
            client = models[0]
            # verifiers sends the rollouts of an example to the same endpoint, unless they are
            # scored alone.
            choose_model = model_clients.ModelRotation(
                models, turns_per_sample=len(examples) if scores_alone else 0
            )
        rows = [
            _rename_column(example, RUBRIC_COLUMN, RENAMED_RUBRIC_COLUMN) for example in examples
        ]
        try:
            with (
                set_variable(_max_retries, max_retries),
                set_variable(_progress_reporter, reporter),
                set_variable(_choose_model, choose_model),
                set_variable(scores_independently, scores_alone),
            ):
                results = await super()._run_examples(rows, client, model, options, data=data)
        finally:
            if endpoints:
                for configured_model in models:
                    await configured_model.close()
        if len(endpoints) > 1:
            results.metadata["base_url"] = ",".join(endpoint.api_base_url for endpoint in endpoints)
        self._add_verifiers_results(results, options.get("state_columns", ()))
        if saves_results and folder is not None:
            save_results(Path(folder), results)
            log(f"Saved final results to {folder}")
        return results

    def _make_folder_name(self, client: Any, model: Any) -> Path:
        """Return a new folder for the results, named after the environment and the model."""
        model_name = str(getattr(model, "id", model or client)).replace("/", "--")
        run_name = f"{self.env_id or type(self).__name__}--{model_name}"
        return Path("outputs", "evals", run_name, uuid4().hex[:8])

    def _make_models(
        self, endpoints: Sequence[Any], client: Any, model: Any, options: Mapping[str, Any]
    ) -> list[Any]:
        """Return the models to ask: one per endpoint of a `ClientConfig`, or one for a custom client.

        The list is empty for any other client, which assay can ask itself.
        """
        max_concurrent = options.get("max_concurrent")
        if max_concurrent == -1:
            max_concurrent = None
        settings = {**self.sampling_args, **options.get("sampling_args", {})}
        models: list[Any] = []
        for endpoint in endpoints:
            models.append(
                model_clients.ConfiguredModel(endpoint, model, settings, at_once=max_concurrent)
            )
        if model_clients.find_custom_client(client) is not None:
            models.append(
                model_clients.ClientUnderTest(client, model, settings, at_once=max_concurrent)
            )
        return models

    def _add_verifiers_results(self, results: envs.Results, state_columns: Sequence[str]) -> None:
        """Make every reward a number, and add the metadata of verifiers."""
        unscored = 0
        passes = Passes()
        example_numbers: dict[Any, int] = {}
        for output, state in zip(results.outputs, results.states, strict=True):
            # If no criterion applies, there is no reward either, but nothing is missing.
            is_reward_missing = output["reward"] is None
            if is_reward_missing and (output["error"] or output["errors"]):
                unscored += 1
            set_numeric_reward(output, state)
            example = example_numbers.setdefault(output["example_id"], len(example_numbers))
            passes.add(output["reward"] >= self.pass_threshold, example)
            output |= {name: state.get(name) for name in state_columns}
        count = len(results.outputs)
        if unscored:
            warn_unscored(unscored, count)
        if count and not compat.strict:
            results.metadata["avg_reward"] = fmean(output["reward"] for output in results.outputs)
        rates: dict[str, Any] = {}  # pass@k by k
        has_repeated_examples = count > len(example_numbers)
        if has_repeated_examples:
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


def _to_verifiers_error(error: Exception) -> Exception:
    """Return the error of verifiers for one that a call of the model raised.

    Errors of assay that do not come from the model, such as an exhausted budget, are unchanged.
    """
    if isinstance(error, records.Error):
        return error
    if isinstance(error, OurModelError):
        if TOO_LONG.search(str(error)):
            return records.OverlongPromptError(str(error))
        if isinstance(error, NoReply):
            return records.InvalidModelResponseError(str(error))
        return records.ModelError(str(error))
    if isinstance(error, AssayError):
        return error
    # Whatever a client raises that the program has passed in.
    return records.ModelError(describe_error(error))


def _rename_column(row: dict[str, Any], name: str, new_name: str) -> dict[str, Any]:
    """Return a row with a column renamed, if it has the column."""
    if name not in row:
        return row
    return {new_name if column == name else column: value for column, value in row.items()}


def _call_on_start(
    on_start: Callable[..., Any],
    examples: Sequence[Any],
    *,
    rollouts_per_example: int,
    scores_alone: bool,
) -> None:
    """Call a start callback of verifiers with the inputs, and with the groups that are scored."""
    groups = [[example] * rollouts_per_example for example in examples]
    inputs = [row for group in groups for row in group]
    on_start(inputs, inputs if scores_alone else groups)


def _to_dataset(rows: list[dict[str, Any]], n: int = -1, seed: int | None = None) -> Any:
    """Return the first `n` rows (all for -1), shuffled before if there is a `seed`.

    They are a Hugging Face data set, or a list if the package `datasets` is not installed.
    """
    try:
        datasets: Any = import_module("datasets")
    except ImportError:
        return select_first(rows, n, seed)
    # A column without any value was not in the source, and `datasets` could not tell its type.
    empty_columns = [name for name in ("info", "answer") if not any(row[name] for row in rows)]
    kept_rows: list[dict[str, Any]] = []
    for row in rows:
        kept_rows.append({name: row[name] for name in row if name not in empty_columns})
    dataset = datasets.Dataset.from_list(kept_rows)
    if seed is not None:
        dataset = dataset.shuffle(seed=seed)
    if n > 0:
        dataset = dataset.select(range(min(n, len(dataset))))
    return dataset


def _read_tools(tools: Sequence[Mapping[str, Any]] | None) -> list[Tool] | None:
    """Return tools in the form used since 0.1.11, also from OpenAI's, which was used before."""
    if tools is None:
        return None
    read: list[Tool] = []
    for tool in tools:
        read.append(tool if isinstance(tool, Tool) else Tool(tool.get("function", tool)))
    return read


def _declare_tools(tools: Sequence[Tool]) -> tuple[DeclaredTool, ...]:
    """Return the tools in the form in which our models take them."""
    declared: list[DeclaredTool] = []
    for tool in tools:
        description: str = tool.get("description") or ""
        parameters: Any = tool.get("parameters") or {}
        declared.append(DeclaredTool(tool["name"], description, json.dumps(parameters)))
    return tuple(declared)


class MultiTurnEnv(Environment, envs.MultiTurnEnv):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A dialogue between a model and an environment, with the options and hooks of verifiers."""

    timeout_seconds: float | None = None
    # The rollout ends when the model has written so many tokens; -1 means no limit.
    max_total_completion_tokens = -1

    @stop
    async def max_total_completion_tokens_reached(self, state: State) -> bool:
        output_tokens = state.get("usage", {}).get("output_tokens", 0)
        return 0 < self.max_total_completion_tokens <= output_tokens

    def mark_timed_out(self, state: State) -> None:
        """Note in the state of a rollout that it took longer than `timeout_seconds`."""
        state.update(timed_out=True, is_completed=True, stop_condition="timeout_reached")

    @cleanup(priority=100)
    async def render_state(self, state: State) -> None:
        """Set the completion when a rollout is over, before other cleanup hooks read it."""
        try:
            await await_if_needed(self.render_completion(state))
        except FAILURES as error:
            if is_stop_request(error):
                raise
            # An error of the rollout. If it were raised, it would only be logged, as for any hook.
            state.update(completion=[], error=error, stop_condition="has_error")

    async def _clean_up(self, state: State) -> None:
        await self.cleanup(state)

    async def _run_dialogue(self, state: State) -> State:
        """Take turns until the rollout ends, for at most `timeout_seconds`."""
        deadline = asyncio.timeout(self.timeout_seconds)
        try:
            async with deadline:
                return await super()._run_dialogue(state)
        except TimeoutError:
            if not deadline.expired():  # raised by the environment itself
                raise
            self.mark_timed_out(state)
        return state

    async def _take_turn(self, state: State) -> None:
        """Take a turn. If the prompt is too long, the rollout ends, and is scored as it is."""
        try:
            await super()._take_turn(state)
        except records.OverlongPromptError:
            # An environment may also raise this itself, if it counts tokens or asks another model.
            state["prompt_too_long"] = True
            state["is_truncated"] = True

    async def add_model_response(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state: State, prompt_messages: Any, response: Any
    ) -> None:
        """Add a response of the model, which was asked these messages, to the trajectory."""
        message = to_chat_message(response.message)
        finish_reason = "length" if response.message.get("is_truncated") else "stop"
        await self._add_step(state, prompt_messages, message, response, finish_reason)


class SingleTurnEnv(MultiTurnEnv):
    """The model is asked once for each example."""

    keeps_text = True

    def __init__(self, dataset: Any = None, **options: Any) -> None:
        super().__init__(dataset, **{**options, "max_turns": 1})

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        raise NotImplementedError("env_response is not implemented for SingleTurnEnv")
