"""Let a judge call tools before it answers: read files and web pages, look at images."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Unpack

from pydantic import BaseModel, Field

from assay.concurrency import run_concurrently, run_in_thread
from assay.criterion import Criterion
from assay.errors import BudgetExceeded, MediaError, NotAsked, Unreadable
from assay.graders.fences import escape_prompt_tags, fence
from assay.graders.judge_input import JudgeInput
from assay.graders.model_grader import (
    GraderOptions,
    PerCriterionGrader,
    PromptPrefix,
    ReplyCheck,
    read_value,
)
from assay.graders.prompt_text import add_media, system_prompt
from assay.media import KIND_BY_MEDIA_TYPE, Attachment, Medium, detect_media_type
from assay.messages import Part, ToolCall, read_parts
from assay.models.budgets import budget, is_dry_run
from assay.models.callable_tool import CallableTool, ToolError, assistant_message, result_content
from assay.models.model import Model, Reply, Request, ask_and_log, media_of
from assay.models.structured import read_structured
from assay.report import Score
from assay.tools import failure
from assay.tools.workspace import LONGEST, MAX_READ
from assay.types import Message, OnError, State
from assay.wording import describe_error, format_count, suggest_word

# The reason of a verdict lists the tool calls: arguments up to this many characters, without the
# punctuation of JSON, whose quotation marks would look like a quotation from the response.
_MAX_ARGUMENTS_LENGTH = 80
_JSON_PUNCTUATION = re.compile(r"[{}\"]")


@dataclass(frozen=True)
class LookLimits:
    """Limits on the conversation about one criterion."""

    turns: int = 8  # calls of the model; in the last one it has to answer
    looks: int = 24  # calls of tools
    characters: int = 100_000  # of all results of tools together
    seconds: float = 20.0  # for each call of a tool
    dollars: float | None = None  # None applies only the limit of the run

    def __post_init__(self) -> None:
        """Raise `ValueError` for a limit within which a judge could not answer."""
        minimums = {"turns": 2, "looks": 1, "characters": 1, "seconds": 0, "dollars": 0}
        for name, minimum in minimums.items():
            value = getattr(self, name)
            # `not >=` instead of `<` refuses NaN too.
            if value is not None and not value >= minimum:
                raise ValueError(f"{name} is {value!r}: give {minimum} or more")


_DEFAULT_LIMITS = LookLimits()


class ToolJudge(PerCriterionGrader):
    """Asks about each criterion in a conversation in which the model may call tools.

    A tool is a function, or an object with a list of functions in `tools`, such as `Workspace`. A
    parameter that is annotated as `State` gets the fields of the rollout. What a tool returns is
    shown to the model as material; bytes are shown as an image, and exceptions as an error message.
    The reason of the verdict ends with the list of tool calls.

    >>> from assay.tools import Workspace
    >>> ToolJudge([Workspace(".")], limits=LookLimits(turns=4)).limits.looks
    24
    """

    prompt = "tool_judge"
    reads_outside = True

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        limits: LookLimits = _DEFAULT_LIMITS,
        **options: Unpack[GraderOptions],
    ) -> None:
        """Offer `tools` to the model, and limit how often it may call them.

        By default, the judge is also asked about a text without content (`degenerate="ask"`),
        unlike other graders: what the model under test made may be in a file.
        """
        options = {"degenerate": "ask", **options}
        # Conversations differ after their first turn, so one call need not go before the others.
        super().__init__(warm=False, **options)
        self.tools = tuple(tools)
        self.limits = limits
        self._tools_by_name: dict[str, CallableTool] = {}
        for tool in self.tools:
            # An object such as `Workspace` has a list of functions; a function is a tool itself.
            functions = getattr(tool, "tools", (tool,))
            for function in functions:
                callable_tool = CallableTool(function)
                name = callable_tool.name
                if name in self._tools_by_name:
                    raise ToolError(f"two tools are named {name!r}: give each its own name")
                self._tools_by_name[name] = callable_tool
        if not self._tools_by_name:
            raise ToolError("ToolJudge has no tools: give it at least one")
        # Set on the copy of the judge that is asked about one criterion.
        self._conversation: _Conversation | None = None

    async def score_batch(
        self,
        prefix: PromptPrefix,
        batch: list[Criterion],
        judge_input: JudgeInput,
        *,
        on_error: OnError,
    ) -> list[Score]:
        """Ask about one criterion in a new conversation."""
        fields = State(judge_input.fields)
        self._check_folders(fields)
        conversation = _Conversation(
            model=self.model,
            tools_by_name=self._tools_by_name,
            limits=self.limits,
            fields=fields,
            shown_parts=_list_shown_parts(judge_input, fields),
            characters_left=self.limits.characters,
        )
        # Results of tools are added to `shown_parts` during the conversation, so that the judge may
        # cite them.
        judge_input = replace(judge_input, fields=fields, parts=conversation.shown_parts, media=())
        # Criteria are asked about concurrently, so each conversation has its own copy of the judge.
        judge = copy(self)
        judge._conversation = conversation
        # The inherited method asks through `get_reply()` of the copy.
        ask_in_conversation = super(ToolJudge, judge).score_batch
        return await ask_in_conversation(prefix, batch, judge_input, on_error=on_error)

    def _check_folders(self, fields: State) -> None:
        """Raise if the folder of a `Workspace` does not exist for this rollout.

        Without this check the judge would find no files, and blame the response.
        """
        for tool in self.tools:
            if hasattr(tool, "open_folder"):
                with tool.open_folder(fields):
                    pass

    async def get_reply(
        self,
        prefix: PromptPrefix,
        question: str,
        schema: type[BaseModel],
        *,
        check: ReplyCheck | None = None,
        question_hash: str = "",
    ) -> Any:
        """Ask one question in the conversation that was set up for its criterion."""
        assert self._conversation is not None, "`score_batch()` sets the conversation"
        request = self.build_request(prefix, question, schema, check, question_hash)
        reply = await self._conversation.get_verdict(request)
        return read_value(reply)


def _list_shown_parts(judge_input: JudgeInput, fields: State) -> list[Part]:
    """Return the parts of the rollout that the judge is shown. `fields` are those of the rollout."""
    if judge_input.parts:
        return list(judge_input.parts)
    parts = read_parts(fields.get("prompt"), fields.get("completion", judge_input.text))
    if judge_input.hidden_thinking:
        return [part for part in parts if part.kind != "thinking"]
    return list(parts)


@dataclass
class _Conversation:
    """A conversation with a model about one criterion."""

    model: Model
    tools_by_name: Mapping[str, CallableTool]
    limits: LookLimits
    fields: State  # of the rollout
    # What the model was shown: the parts of the rollout, then each result of a tool.
    shown_parts: list[Part]
    characters_left: int  # how much more the results of tools may hold
    calls: list[str] = field(default_factory=list[str])  # the tool calls so far, for the reason
    result_count: int = 0  # results so far, also those of calls beyond the limit

    async def get_verdict(self, request: Request) -> Reply:
        """Return the reply with the verdict; its explanation ends with the list of tool calls."""
        tools = tuple(tool.declared for tool in self.tools_by_name.values())
        request = replace(request, tools=tools)
        if self.limits.dollars is None:
            reply = await self._converse_or_explain(request)
        else:
            with budget(dollars=self.limits.dollars):
                reply = await self._converse_or_explain(request)
        if not self.calls:
            return reply
        explanation = f"{reply.value.explanation} (looked at: {', '.join(self.calls)})"
        value = reply.value.model_copy(update={"explanation": explanation})
        return reply._replace(value=value)

    async def _converse_or_explain(self, request: Request) -> Reply:
        """Return the reply with the verdict.

        If there is none within the limits, the error says how many tools the judge called.
        """
        if is_dry_run():
            # The first call of `_converse()` raises in a dry run, so that counts only one turn.
            await self._count_other_turns(request)
        try:
            return await self._converse(request)
        except (Unreadable, BudgetExceeded) as error:
            if not self.calls:
                raise
            raise type(error)(
                f"the judge looked {format_count(len(self.calls), 'time')}, and gave no verdict within "
                f"its limits: {error}"
            ) from None

    async def _count_other_turns(self, request: Request) -> None:
        """Count all possible turns but one, by calls that a dry run counts and does not send."""
        for _ in range(self.limits.turns - 1):
            with suppress(NotAsked):
                await self.model(request)

    async def _converse(self, request: Request) -> Reply:
        """Let the model call tools until it stops or has used all turns; return its verdict.

        The last turn asks for the verdict, unless a reply without tool calls is a verdict already.
        """
        messages = request.messages
        logged_count = 0  # messages that are in the log of calls already
        # While the model may call tools, its reply can be any text.
        free_request = replace(request, schema=None, check=None, logprobs=None)
        for turn in range(1, self.limits.turns):
            turn_request = replace(free_request, messages=messages)
            if turn > 1:
                # The next turn repeats all messages so far, so the endpoint should cache them.
                turn_request = replace(turn_request, shared=len(messages))
            reply = await ask_and_log(self.model, turn_request, logged_count)
            logged_count = len(messages)
            message = assistant_message(reply, turn)
            if reply.tool_calls:
                call_ids = [call["id"] for call in message["tool_calls"]]
                results = await self._call_tools(reply.tool_calls)
                messages = (*messages, message, *self._show_results(results, call_ids))
                continue
            # If log-probabilities are wanted, the verdict has to come from the last request, since
            # only that one asks for them.
            if request.logprobs is None:
                with suppress(Unreadable):
                    return reply._replace(value=read_structured(reply.text, request))
            messages = (*messages, {**message, "content": reply.text or "(nothing)"})
            break
        last_message = {"role": "user", "content": system_prompt("tool_judge_verdict")}
        last_request = replace(request, messages=(*messages, last_message))
        return await ask_and_log(self.model, last_request, logged_count)

    async def _call_tools(self, tool_calls: Sequence[ToolCall]) -> list[str | Medium]:
        """Call tools concurrently; return one text or image per call.

        Calls beyond the limit get an error message as their result.
        """
        looks_left = self.limits.looks - len(self.calls)
        allowed = tool_calls[:looks_left]
        for call in allowed:
            # Written for people, as `read_file(path: notes.txt)`.
            arguments = _JSON_PUNCTUATION.sub("", call.arguments)[:_MAX_ARGUMENTS_LENGTH]
            self.calls.append(f"{call.name}({arguments})")
        results: list[str | Medium] = []
        if allowed:
            results += await run_concurrently(self._call_tool, allowed)
        refused_count = len(tool_calls) - len(allowed)
        results += [failure("no looks are left: give your verdict")] * refused_count
        return results

    def _show_results(
        self, results: Sequence[str | Medium], call_ids: Sequence[str]
    ) -> list[Message]:
        """Return one message per result; images follow in one more message.

        Each result has an address, such as `look3`, which the judge may cite. Images are separate
        because most providers accept no images in the message of a result.
        """
        messages: list[Message] = []
        images: list[Medium] = []
        for call_id, result in zip(call_ids, results, strict=True):
            self.result_count += 1
            address = f"look{self.result_count}"
            if isinstance(result, str):
                text = result
            else:
                images.append(replace(result, address=address))
                text = f"(the image {address} follows)"
            content = self._show_text(address, text)
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
        if images:
            messages.append({"role": "user", "content": add_media("", images)})
        return messages

    def _show_text(self, address: str, text: str) -> str:
        """Return what the model is shown of a result, in a fence, and remember it as a part."""
        shown_text = text[: self.characters_left]
        content = fence(escape_prompt_tags(shown_text))
        if len(text) > self.characters_left:
            content += (
                f"\n(cut off after {self.characters_left:,} characters: no more can be shown)"
            )
        self.characters_left -= len(shown_text)
        part = Part(address, "result", "judge", shown_text, in_prompt=False)
        self.shown_parts.append(part)
        return content

    async def _call_tool(self, call: ToolCall) -> str | Medium:
        """Return the result of a tool, or a text that says what went wrong."""
        tool = self.tools_by_name.get(call.name)
        if tool is None:
            suggestion = suggest_word(call.name, self.tools_by_name)
            return failure(f"there is no tool {call.name!r}: {suggestion}")
        try:
            arguments = tool.arguments(call.arguments, self.fields)
            call_function = partial(tool.function, **arguments)
            async with asyncio.timeout(self.limits.seconds):
                if tool.is_async:
                    result = await call_function()
                else:
                    result = await asyncio.wrap_future(run_in_thread(call_function))
            if isinstance(result, bytes):
                return _read_image(result, self.model)
            content = result_content(result)
        except TimeoutError:
            return failure(f"no result within {self.limits.seconds:g} seconds")
        except Exception as error:  # noqa: BLE001 - a tool may raise anything; the model is told
            return failure(describe_error(error))
        # A list of content parts is shown as text too, since it has to be fenced.
        return str(content)


def _read_image(data: bytes, model: Model) -> Medium:
    """Return the image that a tool returned; raise if it is not one, or the model takes none."""
    media_type = detect_media_type(data)
    if KIND_BY_MEDIA_TYPE.get(media_type) != "image" or len(data) > MAX_READ:
        raise MediaError(
            f"these {len(data):,} bytes cannot be shown: "
            f"only a PNG, JPEG, WebP or GIF of at most {MAX_READ:,} bytes can"
        )
    if "image" not in media_of(model):
        raise MediaError(f"{model.id} takes no images, so it cannot be shown")
    # The address is only for error messages. `_show_results()` sets the final one.
    image = Medium(address="it", media_type=media_type, data=data)
    _ = image.size  # raises if the image is broken
    return image


# Tools. Their docstrings are what the model reads about them.


async def show_image(address: str, state: State) -> bytes:
    """Shows an image of the conversation by its address, such as m3.image1."""
    parts = read_parts(state.get("prompt"), state.get("completion"))
    images = {part.address: part for part in parts if part.kind == "image"}
    if not images:
        raise ValueError(f"there is no image {address!r}: the conversation has no images")
    if address not in images:
        raise ValueError(f"there is no image {address!r}: {suggest_word(address, images)}")
    medium = await Attachment(images[address]).read()
    return medium.data


@dataclass(frozen=True)
class WebPages:
    """Web pages of the hosts with exactly these names. The only tool is `read_url`."""

    hosts: Sequence[str]
    allow_private: bool = False  # for tests: also allows addresses of this machine, and `http`

    def __post_init__(self) -> None:
        if isinstance(self.hosts, str) or not self.hosts:
            raise ValueError(
                f"hosts is {self.hosts!r}: give a list of names such as ['docs.python.org']"
            )

    @property
    def tools(self) -> tuple[Any, ...]:
        return (self.read_url,)

    async def read_url(
        self,
        url: str,
        start: Annotated[int, Field(description="The first character to show, from 0.", ge=0)] = 0,
    ) -> str:
        """Reads a page of the web by its URL; a long one in several calls."""
        # Loaded lazily: it needs aiohttp.
        from assay.models.http import FetchError, fetch_url

        page = await fetch_url(url, hosts=self.hosts, allow_private=self.allow_private)
        if b"\0" in page.body:
            raise FetchError(
                f"{page.url} is not text: it holds {len(page.body):,} bytes of {page.kind}"
            )
        text = page.body.decode("utf-8", "replace")
        end = start + LONGEST
        shown_text = text[start:end]
        if len(text) > end:
            shown_text += f"\n(cut off: read on from start={end})"
        return shown_text
