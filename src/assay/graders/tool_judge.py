"""Let a judge look before it answers: at files, pages, or whatever a function shows it, within limits."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Unpack

from pydantic import BaseModel, Field

from assay.concurrency import run_concurrently, run_in_thread
from assay.criterion import Criterion
from assay.errors import BudgetExceeded, MediaError, NotAsked, Unreadable
from assay.graders.judge_input import (
    JudgeInput,
    fenced,
    system_prompt,
    with_media,
    without_prompt_tags,
)
from assay.graders.model_grader import (
    GraderOptions,
    PerCriterionGrader,
    PromptPrefix,
    ReplyCheck,
    read_value,
)
from assay.media import KIND_BY_MEDIA_TYPE, Attachment, Medium, detect_media_type
from assay.messages import Part, ToolCall, read_parts
from assay.models.budgets import budget, is_dry_run
from assay.models.callable_tool import CallableTool, ToolError, assistant_message, result_content
from assay.models.model import Model, Reply, Request, ask_judge, media_of
from assay.models.structured import read_structured
from assay.report import Score
from assay.tools import failure
from assay.tools.workspace import LONGEST, MOST_READ
from assay.types import Message, State
from assay.wording import describe_error, format_count, suggest_word

_PUNCTUATION = re.compile(
    r"[{}\"]"
)  # of JSON; a quotation mark would pass for a quotation of the response


@dataclass(frozen=True)
class LookLimits:
    """What a judge may take to answer one criterion."""

    turns: int = 8  # calls of the model; in the last one it has to answer
    looks: int = 24  # calls of tools
    characters: int = 100_000  # of all that they return
    seconds: float = 20.0  # for each of them
    dollars: float | None = None  # None is no limit but that of the run

    def __post_init__(self) -> None:
        for name, least in {
            "turns": 2,
            "looks": 1,
            "characters": 1,
            "seconds": 0,
            "dollars": 0,
        }.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ValueError(f"{name} is {value!r}: give {least} or more")


_LIMITS = LookLimits()


class ToolJudge(PerCriterionGrader):
    """Asks about each criterion in a conversation in which the model may call `tools` before it answers.

    A tool is a function, or holds some, as `Workspace` does; one that annotates a parameter as `State` gets the fields of
    the rollout there. What it returns is shown as material, the bytes of an image as that image, and what it raises is told
    to the model. The reason of the verdict ends with what was looked at.

    >>> from assay.tools import Workspace
    >>> ToolJudge([Workspace(".")], limits=LookLimits(turns=4)).limits.looks
    24
    """

    prompt = "tool_judge"

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        limits: LookLimits = _LIMITS,
        **options: Unpack[GraderOptions],
    ) -> None:
        """A text without an answer is judged like any other, since what is to be judged may be in a file."""
        super().__init__(warm=False, **{"degenerate": "ask", **options})
        self.tools, self.limits = tuple(tools), limits
        functions = [
            function for tool in self.tools for function in getattr(tool, "tools", (tool,))
        ]
        self._callable = {tool.name: tool for tool in map(CallableTool, functions)}
        if len(self._callable) < len(functions) or not functions:
            raise ToolError(
                "ToolJudge has no tools, or two of one name: give it at least one, each with its own name"
            )
        self._fields, self._shown = State(), list[Part]()

    async def _ask_about_one(
        self, prefix: PromptPrefix, criterion: Criterion, judge_input: JudgeInput
    ) -> Score:
        own, fields = copy(self), State(judge_input.fields)
        for tool in self.tools:
            if hasattr(tool, "folder"):
                tool.folder(fields)  # raises: a judge that finds no files would call them missing
        # What is looked at can be quoted like what was shown at first.
        said = judge_input.parts or read_parts(
            fields.get("prompt"), fields.get("completion", judge_input.text)
        )
        own._fields, own._shown = fields, list(said)
        shown = replace(judge_input, fields=fields, parts=own._shown, media=())
        return await super(ToolJudge, own)._ask_about_one(prefix, criterion, shown)

    async def get_reply(
        self,
        prefix: PromptPrefix,
        question: str,
        schema: type[BaseModel],
        *,
        check: ReplyCheck | None = None,
        question_hash: str = "",
    ) -> Any:
        request = self.build_request(prefix, question, schema, check, question_hash)
        return read_value(await self._converse(self.model, request))

    async def _converse(self, model: Model, request: Request) -> Reply:
        """Return the reply with a verdict, after a conversation in which the model may look."""
        request = replace(request, tools=tuple(tool.declared for tool in self._callable.values()))
        looks: list[str] = []
        with nullcontext() if self.limits.dollars is None else budget(dollars=self.limits.dollars):
            for _ in range(self.limits.turns - 1 if is_dry_run() else 0):
                with suppress(NotAsked):  # counted, so that an estimate covers every turn
                    await model(request)
            try:
                reply = await self._verdict(model, request, looks)
            except (Unreadable, BudgetExceeded) as error:
                if not looks:
                    raise
                looked = f"the judge looked {format_count(len(looks), 'time')}, and gave no verdict within its limits"
                raise type(error)(f"{looked}: {error}") from None
        if looks:
            # So that a reader of the verdict knows what it rests on.
            reason = f"{reply.value.explanation} (looked at: {', '.join(looks)})"
            reply = reply._replace(value=reply.value.model_copy(update={"explanation": reason}))
        return reply

    async def _verdict(self, model: Model, request: Request, looks: list[str]) -> Reply:
        """The reply with a verdict; `looks` are noted as they come."""
        messages, logged, left, first = (
            request.messages,
            0,
            self.limits.characters,
            len(self._shown),
        )
        open_question = replace(request, schema=None, check=None, logprobs=None)
        for turn in range(1, self.limits.turns):
            # All so far is how the next turn begins, and so worth a cache breakpoint.
            shared = request.shared if turn == 1 else len(messages)
            reply = await ask_judge(
                model, replace(open_question, messages=messages, shared=shared), logged
            )
            logged, said = len(messages), assistant_message(reply, turn)
            if not reply.tool_calls:
                with suppress(Unreadable):
                    if request.logprobs is None:
                        return reply._replace(value=read_structured(reply.text, request))
                messages = (*messages, {**said, "content": reply.text or "(nothing)"})
                break
            allowed = reply.tool_calls[: self.limits.looks - len(looks)]
            looks += [
                f"{call.name}({_PUNCTUATION.sub('', call.arguments):.80})" for call in allowed
            ]
            found = await run_concurrently(self._look, allowed) if allowed else []
            found += [failure("no looks are left: give your verdict")] * (
                len(reply.tool_calls) - len(allowed)
            )
            told: list[Message] = [said]
            images: list[Medium] = []
            pairs = zip(said["tool_calls"], found, strict=True)
            for number, (call, looked) in enumerate(pairs, start=len(self._shown)):
                name = f"look{number - first + 1}"
                images += [] if isinstance(looked, str) else [replace(looked, address=name)]
                result = looked if isinstance(looked, str) else f"(the image {name} follows)"
                cut = (
                    f"\n(cut off after {left:,} characters: no more can be shown)"
                    if len(result) > left
                    else ""
                )
                seen, left = result[:left], max(0, left - len(result))
                self._shown.append(Part(name, "result", "judge", seen, in_prompt=False))
                content = fenced(without_prompt_tags(seen)) + cut
                told.append({"role": "tool", "tool_call_id": call["id"], "content": content})
            # Which no result of a tool may hold at most providers.
            told += [{"role": "user", "content": with_media("", images)}] if images else []
            messages = (*messages, *told)
        messages = (*messages, {"role": "user", "content": system_prompt("tool_judge_verdict")})
        return await ask_judge(model, replace(request, messages=messages), logged)

    async def _look(self, call: ToolCall) -> str | Medium:
        """What a tool returns; what goes wrong is told in its place."""
        tool, seconds = self._callable.get(call.name), self.limits.seconds
        if tool is None:
            return failure(
                f"there is no tool {call.name!r}: {suggest_word(call.name, self._callable)}"
            )
        try:
            work = partial(tool.function, **tool.arguments(call.arguments, self._fields))
            async with asyncio.timeout(seconds):
                found = await (
                    work() if tool.is_async else asyncio.wrap_future(run_in_thread(work))
                )
            if isinstance(found, bytes):
                return self._image(found)
            found = result_content(found)
        except TimeoutError:
            return failure(f"no result within {seconds:g} seconds")
        except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model is told
            return failure(describe_error(error))
        return found if isinstance(found, str) else str(found)

    def _image(self, data: bytes) -> Medium:
        """An image that a tool returned; raises for what is none, and where the model takes none."""
        if KIND_BY_MEDIA_TYPE.get(detect_media_type(data)) != "image" or len(data) > MOST_READ:
            raise MediaError(
                f"{len(data):,} bytes cannot be shown: a PNG, JPEG, WebP or GIF of {MOST_READ:,} can"
            )
        if "image" not in media_of(self.model):
            raise MediaError(f"{self.model.id} takes no images, so it cannot be shown")
        medium = Medium("it", detect_media_type(data), data)
        _ = medium.size  # raises for a broken one
        return medium


async def show_image(address: str, state: State) -> bytes:
    """Shows an image of the conversation by its address, such as m3.image1."""
    parts = read_parts(state.get("prompt"), state.get("completion"))
    images = {part.address: part for part in parts if part.kind == "image"}
    if address not in images:
        raise ValueError(
            f"there is no image {address!r}: {suggest_word(address, images) if images else 'none is'}"
        )
    return (await Attachment(images[address]).read()).data


@dataclass(frozen=True)
class WebPages:
    """Pages of the web, by their URL, from `hosts` of exactly these names alone; its one tool is `read_url`."""

    hosts: Sequence[str]
    allow_private: bool = False  # for tests: also addresses of this machine, and `http`

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
        from assay.models.http import FetchError, fetch_url  # which needs aiohttp

        page = await fetch_url(url, hosts=self.hosts, allow_private=self.allow_private)
        if b"\0" in page.body:
            raise FetchError(
                f"{page.url} is no text: it holds {len(page.body):,} bytes of {page.kind}"
            )
        text = page.body.decode("utf-8", "replace")
        more = (
            f"\n(cut off: read on from start={start + LONGEST})"
            if len(text) > start + LONGEST
            else ""
        )
        return text[start : start + LONGEST] + more
