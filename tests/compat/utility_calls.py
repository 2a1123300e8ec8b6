"""Calls of the small functions of `verifiers`, and what they give, in plain values that can be compared.

Run it where verifiers 0.1.14 is installed to record what it gives: `PYTHON tests/compat/utility_calls.py`.
"""

import asyncio
import contextlib
import importlib
import io
import itertools
import json
import logging
import os
import tempfile
import threading
import types
from datetime import date, datetime
from pathlib import Path

from datasets import Dataset
from pydantic import BaseModel

RECORDED = Path(__file__).with_suffix(".json")

CLASSES = [
    "SystemMessage",
    "UserMessage",
    "AssistantMessage",
    "ToolMessage",
    "TextMessage",
    "TextContentPart",
    "ImageUrlContentPart",
]
PARTS = [
    {"type": "text", "text": "Look:"},
    {"type": "image_url", "image_url": {"url": "data:,a"}},
    {"type": "input_audio", "input_audio": {"data": "a b", "format": " WAV"}},
    {"type": "video", "url": "x"},
]
CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
SAID = {
    "role": "assistant",
    "content": None,
    "tool_calls": [CALL, {"id": "d", "name": "sub", "arguments": "{}"}],
}
UNSAID = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"function": {"name": "now", "arguments": None}}],
}
USER_TEXT = {"role": "user", "content": "few"}
USER = {"role": "user", "content": PARTS}
TOLD = {"role": "tool", "content": "3", "tool_call_id": "c"}
KINDS = ["text", "image_url", "input_audio", "audio"]
ODD = [
    {},
    {"text": 1},
    {"image_url": "data:,b"},
    {"image_url": {"url": None}},
    {"data": "a\nb", "format": "MP3 "},
    {"input_audio": {"data": " ", "format": "wav"}},
]


class Point(BaseModel):
    x: int
    y: int | None = None


def in_threads(utils):
    """How many values and loops two threads make that ask for each twice, and whether the loops are those set."""
    made, loops = [], []

    def ask():
        for _ in range(2):
            utils.get_or_create_thread_attr(
                "point", lambda *args, **given: made.append((args, given)) or "made", 1, x=2
            )
            loops.append(utils.get_or_create_thread_loop())
        assert loops[-1] is asyncio.get_event_loop()
        assert utils.THREAD_LOCAL_STORAGE.point == "made"
        loops[-1].close()

    for _ in range(2):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    return [made, len(set(map(id, loops)))]


def plain(value):
    """A value that JSON can hold, without what distinguishes a dict of ours from a record of theirs."""
    if all(hasattr(value, name) for name in ("id", "name", "arguments")):
        return {name: getattr(value, name) for name in ("id", "name", "arguments")}
    if hasattr(value, "model_dump"):
        fields = {name: plain(getattr(value, name)) for name in value.model_dump()}
        own = {"class": type(value).__name__} if type(value).__name__ in CLASSES else {}
        return own | {name: field for name, field in fields.items() if field is not None}
    if isinstance(value, BaseException | type):
        return repr(value)
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set):
        return sorted(value)
    return value


def calls(package):
    """The calls by their names."""

    def module(path):
        return importlib.import_module(f"{package}.{path}")

    vf, kinds = importlib.import_module(package), module("types")
    messages, errors, data = (
        module(f"utils.{name}_utils") for name in ("message", "error", "data")
    )
    name_of_log = package.partition(".")[0]

    def raised(*chain):
        for error, cause in itertools.pairwise(chain):
            error.__cause__ = cause
        return chain[0]

    def chained(**options):
        error = raised(vf.ToolCallError("no"), vf.InfraError("down"), ValueError("x"))
        return errors.ErrorChain(error, **options)

    def question(name, **row):
        return data.get_preprocess_fn(name)(row)

    def compared(states) -> list:
        return [0.0 for _ in states]

    def alone(completion):
        return 1.0

    def listed(rubric):
        kinds = [
            f"_get_{kind}_reward_{what}"
            for kind in ("individual", "group")
            for what in ("func_names", "weights")
        ]
        funcs = [*rubric._get_individual_reward_funcs(), *rubric._get_group_reward_funcs()]
        return [
            [getattr(rubric, kind)() for kind in kinds],
            [func.__name__ for func in funcs],
            rubric.has_group_rewards,
        ]

    @contextlib.contextmanager
    def log():
        """The logger of the package, which afterwards is as it was."""
        logger = logging.getLogger(name_of_log)
        kept = [*logger.handlers], logger.level, logger.propagate
        try:
            yield logger
        finally:
            logger.handlers[:], level, logger.propagate = kept
            logger.setLevel(level)

    def levels():
        with log() as logger, contextlib.suppress(ValueError):
            vf.setup_logging("debug")
            vf.setup_logging("Warning")
            seen = [logger.level, len(logger.handlers), logger.propagate]
            for context in (vf.log_level("error"), vf.log_level(5), vf.quiet_verifiers()):
                with context:
                    seen.append(logger.level)
            with vf.log_level("info"):
                seen.append(logger.level)
                raise ValueError
        with log() as logger:
            vf.setup_logging(None)
            return [*seen, logger.handlers, logger.propagate]

    def logged(**options):
        """What two lines look like on the console and in a file, the time and the name aside."""
        with (
            log() as logger,
            tempfile.TemporaryDirectory() as folder,
            contextlib.redirect_stderr(io.StringIO()) as told,
        ):
            file = Path(folder, "log.txt")
            vf.setup_logging("INFO", log_file=str(file), **options)
            logger.debug("one")
            logger.warning("two %s", 2)
            lines = [told.getvalue(), file.read_text(encoding="utf-8") if file.exists() else None]
            for handler in logger.handlers:
                handler.close()
        return [
            line and line.replace(name_of_log, "NAME")[-len("NAME - WARNING - two 2\n") :]
            for line in lines
        ]

    def printed(*asked, **options):
        with contextlib.redirect_stdout(io.StringIO()) as told:
            os.environ["COLUMNS"] = "80"
            try:
                vf.print_prompt_completions_sample(*asked, **options)
            finally:
                del os.environ["COLUMNS"]
        return told.getvalue().splitlines()

    def shown(chat):
        text = messages.format_messages(chat)
        return [text.plain, [f"{span.start}-{span.end} {span.style}" for span in text.spans]]

    def warned(*asked):
        """The warnings of two calls: who wrote them is told once."""
        with log() as logger:
            logger.propagate, found = False, []
            logger.addHandler(logging.Handler())
            logger.handlers[-1].emit = lambda record: found.append(record.levelname)
            logger.setLevel("WARNING")
            kept = [
                messages.maybe_normalize_messages(chat, field_name="env_response") for chat in asked
            ]
        return [found, [each is chat for each, chat in zip(kept, asked, strict=True)], kept]

    rubric = vf.Rubric(funcs=[alone, compared, lambda completion: 0.0], weights=[1.0, 0.5, 0.25])
    typed = messages.from_raw_message
    return {
        "part": lambda: [messages.from_raw_content_part(part) for part in PARTS],
        "raw": lambda: [typed(message) for message in (USER, SAID, UNSAID, TOLD)],
        "raw text": lambda: typed({"role": "text", "content": "a"}),
        "raw attributes": lambda: [
            typed(SAID).tool_calls[0].arguments,
            typed(USER).content[1].image_url.url,
        ],
        "raw unknown": lambda: typed({"role": "critic", "content": "a"}),
        "raw without a role": lambda: typed({"content": "a"}),
        "normalize a text": lambda: messages.normalize_messages("a"),
        "normalize": lambda: messages.normalize_messages([USER, SAID, typed(TOLD)]),
        "normalize keeps": lambda: messages.normalize_messages([found := typed(TOLD)])[0] is found,
        "normalize others": lambda: (
            messages.normalize_messages([types.SimpleNamespace(role="a", content="b")])[0].role
        ),
        "normalize a number": lambda: messages.normalize_messages([1], field_name="prompt"),
        "maybe": lambda: messages.maybe_normalize_messages([USER, typed(TOLD)]),
        "maybe with a warning": lambda: warned([typed(TOLD)], [], [TOLD], "a", (typed(TOLD),)),
        "concat": lambda: messages.concat_messages([[USER], [], [TOLD, SAID]]),
        "printable": lambda: messages.message_to_printable(USER),
        "printable of a class": lambda: messages.message_to_printable(typed(USER)),
        "printable with calls": lambda: messages.message_to_printable(
            SAID | {"content": PARTS, "name": "x"}
        ),
        "printable with thoughts": lambda: messages.message_to_printable(
            {"role": "assistant", "content": [{"type": "audio"}, "a"], "reasoning_content": "b"}
        ),
        "printable texts": lambda: messages.messages_to_printable([TOLD, typed(TOLD), USER]),
        "printable of a text": lambda: messages.messages_to_printable("a"),
        "printable of nothing": lambda: messages.messages_to_printable(None),
        "sanitized": lambda: messages.sanitize_tool_calls(
            [USER, SAID | {"reasoning_content": "b"}]
        ),
        "sanitized classes": lambda: messages.sanitize_tool_calls([typed(SAID), typed(TOLD)]),
        "sanitized again": lambda: messages.sanitize_tool_calls(
            messages.sanitize_tool_calls([typed(SAID | {"content": "c"})])
        ),
        "sanitized text": lambda: messages.sanitize_tool_calls("a"),
        "chain": lambda: [str(chained()), repr(chained()), chained().chain, chained().root_error],
        "chain of vf": lambda: [str(chained(build_error_chain=errors.get_vf_error_chain))],
        "chain of a type": lambda: errors.get_error_chain(chained().root_error, vf.ToolError),
        "chain of none": lambda: errors.get_error_chain(None),
        "chain holds": lambda: [
            kind in chained() for kind in (ValueError, vf.Error, vf.SandboxError)
        ],
        "chains equal": lambda: [
            len({chained(), chained(), errors.ErrorChain(ValueError("y"))}),
            chained() == errors.ErrorChain(ValueError("y")),
            chained() == "a",
        ],
        "log levels": levels,
        "log file": lambda: logged(file_logging=True, console_logging=False),
        "log on the console": logged,
        "log in both": lambda: logged(
            file_logging=True, log_format="%(levelname)s", date_format="%H"
        ),
        "log file without a path": lambda: vf.setup_logging(file_logging=True),
        "samples": lambda: printed([[USER_TEXT], "a"], [[SAID], "b"], [None, None], [0.5, 1.0], 3),
        "samples with errors": lambda: printed(
            [[USER_TEXT], "a"],
            [[SAID], "b"],
            [chained().root_error, errors.error_info(ValueError("x"))],
            [0.5],
            3,
            5,
        ),
        "formatted": lambda: shown([USER_TEXT, SAID, UNSAID, typed(TOLD), typed(SAID)]),
        "formatted thoughts": lambda: shown(
            [
                {"role": "assistant", "content": said, "reasoning_content": thought}
                for said in "a\x07 "
                for thought in "b "
            ]
        ),
        "formatted calls": lambda: shown(
            [{"role": "assistant", "tool_calls": ['{"name": "f", "arguments": {"ä": 1}}']}]
        ),
        "formatted text": lambda: shown("a\x00\n\ud800"),
        "error info": lambda: errors.error_info(chained().root_error),
        "error names": lambda: [
            errors.error_type_name(error)
            for error in (vf.ToolError("a"), {"error": "A"}, {"error": 1}, {}, "a", None)
        ],
        "errors of info": lambda: [
            errors.error_info_to_exception(info, kinds)
            for info in (
                errors.error_info(chained().root_error),
                {"error": "ValueError"},
                {"error": None},
                {},
            )
            for kinds in (
                (vf.InfraError, vf.ToolError),
                (ValueError, vf.ToolCallError),
                (KeyError,),
                (),
            )
        ],
        "output": lambda: [
            messages.serialize_message_for_output(message)
            for message in (
                USER | {"name": "x", "other": 1},
                typed(USER),
                SAID | {"content": PARTS[:1], "reasoning_content": "b"},
                typed(SAID | {"content": PARTS[:2]}),
                TOLD | {"content": PARTS[:1]},
            )
        ],
        "output of odd parts": lambda: messages.serialize_message_for_output(
            {
                "role": "user",
                "content": [{"type": kind, **odd} for kind in KINDS for odd in ODD] + ["a", {}],
            }
        ),
        "output kept": lambda: [
            messages.serialize_message_for_output(message) is message
            for message in (TOLD, SAID, typed(TOLD))
        ],
        "outputs": lambda: [
            messages.serialize_messages_for_output(chat)
            for chat in ([USER_TEXT, USER], "a", None, [])
        ],
        "task fields": lambda: kinds.TASK_INPUT_FIELDS,
        "json": lambda: kinds.assert_json_serializable({"a": [1, None]}),
        "task": lambda: [kinds.normalize_task_payload(task) for task in ({"a": 1}, '{"a": 1}', {})],
        "task of info": lambda: [
            kinds.task_payload_from_info(info)
            for info in (
                None,
                {},
                {"task": {"a": 1}},
                '{"task": "{\\"a\\": 2}"}',
                [1],
                {"task": {}},
            )
        ],
        "task of a row": lambda: [
            kinds.flatten_task_input(row)
            for row in (
                {"prompt": "p"},
                {"info": {"task": {}}, "task": "a"},
                {"task": '{"b": 1}'},
                {"info": None},
            )
        ],
        "data set": lambda: [
            list(data.format_dataset(Dataset.from_list(rows), **options))
            for rows in (
                [{"question": "a", "answer": "b"}],
                [{"question": "a", "example_id": "x", "q": "c", "r": "d"}],
            )
            for options in (
                {},
                {"system_prompt": "s", "few_shot": [USER_TEXT]},
                {"question_key": "question"},
            )
        ],
        "data set of other columns": lambda: list(
            data.format_dataset(
                Dataset.from_list([{"q": "a", "r": "b"}]), question_key="q", answer_key="r"
            )
        ),
        "data set with prompts": lambda: list(
            data.format_dataset(Dataset.from_list([{"prompt": "p", "example_id": 7}]))
        ),
        "in json": lambda: [
            module("utils.save_utils").make_serializable(value)
            for value in (
                Point(x=1),
                datetime(2025, 1, 15, 10, 30),
                date(2025, 1, 2),
                Path("/a/b"),
                KeyError("k"),
                {3},
            )
        ],
        "values of a thread": lambda: in_threads(module("utils.thread_utils")),
        "functions": lambda: listed(rubric),
        "functions of a group": lambda: listed(vf.RubricGroup([rubric])),
        "aime2024": lambda: question("aime2024", problem="1 + 1?", answer="002"),
        "aime2025": lambda: question("aime2025", question="1 + 1?", answer="$2$"),
        "amc2023": lambda: question("amc2023", problem="?", answer=27.0),
        "gsm8k": lambda: question("gsm8k", question="?", answer="so\n#### 4"),
        "math": lambda: question("math", problem="?", solution="so \\boxed{\\frac{1}{2}}."),
        "mmlu_pro": lambda: question("mmlu_pro", question="?", options=["a", "b"], answer="B"),
        "openbookqa": lambda: question(
            "openbookqa",
            question_stem="?",
            choices={"text": ["a", "b"], "label": ["A", "B"]},
            answerKey="A",
        ),
        "prime_code": lambda: question("prime_code", prompt="?", verification_info={"tests": 1}),
        "no example": lambda: question("nothing"),
    }


def outcome(call):
    """What a call gives, or the kind of what it raises: the words of an error are our own."""
    try:
        return plain(call())
    except Exception as error:  # noqa: BLE001 - which one it is, is what is compared
        return {
            "raises": next(
                kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"
            )
        }


if __name__ == "__main__":
    found = {name: outcome(call) for name, call in calls("verifiers").items()}
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
