"""Images, audio and PDFs of a rollout reach a judge that takes them, whatever they came as; for others they are an error."""

import asyncio
import base64
import io
import json
import threading
import wave
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google import genai
from google.genai import types as google
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from PIL import Image
from pydantic import TypeAdapter

from assay import (
    Autograder,
    MediaError,
    Panel,
    PerCriterionGrader,
    Referenced,
    Refused,
    Rollout,
    Rubric,
    RubricAsJudgeGrader,
    media_access,
)
from assay.concurrency import run_sync as run
from assay.graders.fences import make_mark
from assay.media import MAX_BYTES, Medium, read_medium
from assay.messages import read_parts
from assay.models import Limits, Price, dry_run, model_of
from assay.models.model import log_calls, media_of
from assay.testing import FakeModel, ModelServer

CRITERION = {"requirement": "Names what is in the picture", "name": "names_it"}
LIMITS = Limits(timeout=5, attempts=1)
EVERY = ("image", "audio", "file")


def picture(format: str, size: tuple[int, int] = (40, 30), color: str = "red") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, color).save(
        file, format, **({"lossless": True} if format == "WEBP" else {})
    )
    return file.getvalue()


def sound(seconds: float = 0.5) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(8000)
        written.writeframes(bytes(2 * int(8000 * seconds)))
    return file.getvalue()


PDF = b"%PDF-1.4\n1 0 obj<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2>>endobj 2 0 obj<</Type/Page>>endobj 3 0 obj<< /Type /Page >>endobj\n%%EOF"
MEDIA = {
    "image/png": picture("PNG"),
    "image/jpeg": picture("JPEG"),
    "image/webp": picture("WEBP"),
    "image/gif": picture("GIF"),
    "audio/wav": sound(),
    "audio/mpeg": b"ID3\x04" + bytes(4000),
    "application/pdf": PDF,
}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url_of(media_type: str) -> str:
    return f"data:{media_type};base64,{b64(MEDIA[media_type])}"


def asking(*parts: Any, text: str = "What is this?") -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text}, *parts]}]


def image(url: str = url_of("image/png")) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def scored(
    prompt: Any, completion: Any = "A red square.", *, media: Any = EVERY, **options: Any
) -> tuple[Any, Any]:
    """The report of a rollout, and the endpoint that was asked."""
    with ModelServer("MET") as server:
        model = model_of(server.model, media=media, limits=LIMITS)
        rubric = Rubric([CRITERION], judge=PerCriterionGrader(model=model), **options)
        [report] = run(rubric.score([Rollout(prompt=prompt, completion=completion)]))
        return report, server


def error_of(*given: Any, **options: Any) -> str:
    """Why a rollout has no score; no endpoint was asked."""
    report, server = scored(*given, **options)
    assert (report.score, server.requests) == (None, [])
    return report.errors["names_it"]


# What is sent


def test_an_image_follows_the_text_under_its_address() -> None:
    """In the same message of the user, in a fence of its own, before the criterion; the text says where it belongs."""
    _, server = scored(asking(image()))
    [system, user] = server.requests[0].body["messages"]
    first, medium, last, question = user["content"]
    assert system["role"] == "system"
    assert (
        '<turn id="m1" role="user">\nWhat is this?\n<part id="m1.image1">\n(attached below)\n</part>\n</turn>'
        in first["text"]
    )
    assert first["text"].endswith(
        "ends]\n\n"
        + (fence := f"[material {mark_of_media('image/png')} ")
        + 'begins]\n<part id="m1.image1">'
    )
    assert medium == {"type": "image_url", "image_url": {"url": url_of("image/png")}}
    assert last["text"] == f"</part>\n{fence}ends]\n\n"
    assert question["text"].startswith("<criterion_type>")


def mark_of_media(*media_types: str) -> str:
    return make_mark(
        "".join(Medium("", kind, MEDIA[kind]).description["sha256"] for kind in media_types)
    )


def test_every_criterion_shares_the_media_as_a_prefix() -> None:
    """Content part for content part, but for the last; and one call goes ahead, so that the endpoint has read them."""
    with ModelServer("MET") as server:
        model = model_of(server.model, media="image")
        rubric = Rubric(
            [{"requirement": f"Holds {n}"} for n in range(4)],
            judge=PerCriterionGrader(model=model),
        )
        rubric.score_rollout_sync(
            prompt=asking(image(), image(url_of("image/gif"))), completion="It is red."
        )
        bodies = [asked.body["messages"] for asked in server.requests]
    assert len({json.dumps([body[0], body[1]["content"][:-1]]) for body in bodies}) == 1
    assert [part["type"] for part in bodies[0][1]["content"]] == ["text", "image_url"] * 2 + [
        "text",
        "text",
    ]
    assert server.most_at_once < 4


def test_media_of_the_response_are_shown_and_are_an_answer() -> None:
    """An image alone is no empty answer; one in the result of a tool has the address of its turn."""
    said = [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "plot", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/webp",
                                "data": b64(MEDIA["image/webp"]),
                            },
                        }
                    ],
                }
            ],
        },
        {"role": "assistant", "content": [image()]},
    ]
    report, server = scored("Draw it.", said)
    assert report.score == 1.0
    words = server.requests[0].user
    assert words.index('<part id="m3.image1">\n(attached below)') < words.index(
        '<part id="m4.image1">\n(attached below)'
    )
    sent = [
        p["image_url"]["url"]
        for p in server.requests[0].body["messages"][1]["content"]
        if p["type"] == "image_url"
    ]
    assert sent == [url_of("image/webp"), url_of("image/png")]


@pytest.mark.parametrize("media_type", MEDIA)
@pytest.mark.parametrize(
    "shape", ["data", "chat", "responses", "anthropic", "gemini", "bytes", "object"]
)
def test_media_of_every_shape_hold_the_same_bytes(media_type: str, shape: str) -> None:
    """By `data:` URL, base64 or bytes, as OpenAI, Anthropic and Gemini write them, in JSON or as objects of an SDK."""
    data, kind = MEDIA[media_type], Medium("", media_type, b"").kind
    url, name = url_of(media_type), {"image": "image", "audio": "audio", "file": "document"}[kind]
    shapes: dict[str, Any] = {
        "data": {"type": kind, "url": url},
        "chat": {
            "image": image(url),
            "file": {"type": "file", "file": {"file_data": url, "filename": "a.pdf"}},
            "audio": {
                "type": "input_audio",
                "input_audio": {
                    "data": b64(data),
                    "format": {"audio/mpeg": "mp3"}.get(media_type, "wav"),
                },
            },
        }[kind],
        "responses": {
            "type": f"input_{kind}",
            {"image": "image_url", "file": "file_data", "audio": "data"}[kind]: url,
        },
        "anthropic": {
            "type": name,
            "source": {"type": "base64", "media_type": media_type, "data": b64(data)},
        },
        "gemini": {"inlineData": {"mimeType": media_type, "data": b64(data)}},
        "bytes": {"type": kind, kind: {"bytes": data, "path": "x"}},
        "object": google.Part.from_bytes(data=data, mime_type=media_type),
    }
    [part] = read_parts([{"role": "user", "content": [shapes[shape]]}], "x")[:1]
    assert (part.kind, read_medium(part)) == (kind, Medium(f"m1.{kind}1", media_type, data))


@pytest.mark.parametrize("kind", ["http", "OpenAI", "AsyncOpenAI"])
async def test_openai_takes_the_request(kind: str) -> None:
    """As its SDK's own types have it: images, wav and mp3, and PDFs."""
    with ModelServer("MET") as server:
        source = (
            server.model
            if kind == "http"
            else getattr(openai, kind)(api_key="k", base_url=server.url)
        )
        await asked_about_all(
            model_of(source, None if kind == "http" else "test", media=EVERY, limits=LIMITS)
        )
        body = dict(server.requests[0].body)
    # The SDK's types say what a caller gives, and lists go out for what may be any iterable.
    checked = TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(body)
    assert checked["model"] == "test"
    sent = body["messages"][-1]["content"]
    assert [part["type"] for part in sent if part["type"] != "text"] == ["image_url"] * 4 + [
        "input_audio"
    ] * 2 + ["file"]
    formats = [part["input_audio"]["format"] for part in sent if part["type"] == "input_audio"]
    assert formats == ["wav", "mp3"]
    assert sent[-3]["file"] == {"filename": "m1.file1.pdf", "file_data": url_of("application/pdf")}


async def asked_about_all(model: Any, *leave_out: str) -> None:
    parts = [
        {"type": Medium("", kind, b"").kind, "media_type": kind, "data": b64(data)}
        for kind, data in MEDIA.items()
    ]
    parts = [part for part in parts if part["type"] not in leave_out]
    rubric = Rubric([CRITERION], judge=PerCriterionGrader(model=model))
    [report] = await rubric.score([Rollout(prompt=asking(*parts), completion="All of it.")])
    assert report.errors == {}


@pytest.mark.parametrize("kind", ["Anthropic", "AsyncAnthropic"])
async def test_anthropic_takes_the_request(kind: str) -> None:
    """As its SDK's own types have it, with the cache breakpoint after the media."""
    with ModelServer("MET") as server:
        client = getattr(anthropic, kind)(api_key="k", base_url=server.host)
        await asked_about_all(model_of(client, "claude-sonnet-5", limits=LIMITS), "audio")
        body = server.requests[0].body
    content = body["messages"][0]["content"]
    TypeAdapter(MessageCreateParamsNonStreaming).validate_python(body)
    assert [part["type"] for part in content if part["type"] != "text"] == ["image"] * 4 + [
        "document"
    ]
    assert content[-3]["source"] == {
        "type": "base64",
        "media_type": "application/pdf",
        "data": b64(PDF),
    }
    assert [place for place, part in enumerate(content) if "cache_control" in part] == [
        len(content) - 2
    ]


async def test_google_takes_the_request() -> None:
    """As its SDK's own types have it."""
    with (
        ModelServer("MET") as server,
        genai.Client(api_key="k", http_options={"base_url": server.host}) as client,
    ):
        await asked_about_all(model_of(client, "gemini-3.8-flash", limits=LIMITS))
        body = server.requests[0].body
    [content] = [google.Content.model_validate(each) for each in body["contents"]]
    assert [
        (p.inline_data.mime_type, p.inline_data.data) for p in content.parts or () if p.inline_data
    ] == [*MEDIA.items()]


@pytest.mark.parametrize(
    ("grader", "most_calls"),
    [
        (lambda model: RubricAsJudgeGrader(model=model), 1),
        # Both ask the same, and share one call if it is still under way.
        (lambda model: Panel([PerCriterionGrader(model=model)] * 2), 2),
        (lambda model: Referenced(PerCriterionGrader(model=model), "a red square"), 1),
    ],
)
def test_other_graders_show_media_too(grader: Any, most_calls: int) -> None:
    """Whatever stands around the one that asks."""
    with ModelServer(lambda system, user: 85 if "overall_score" in system else "MET") as server:
        rubric = Rubric([CRITERION], judge=grader(model_of(server.model, media="image")))
        [report] = run(rubric.score([Rollout(prompt=asking(image()), completion="A red square.")]))
        assert (report.errors, report.score is not None) == ({}, True)
        assert 1 <= len(server.requests) <= most_calls
        assert all("image_url" in str(asked.body["messages"]) for asked in server.requests)


# Who takes what


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("openai/gpt-5-mini", "file image"),
        ("openai/gpt-4o-audio-preview", "audio"),
        ("openai/o3-mini", ""),
        ("anthropic/claude-sonnet-5", "file image"),
        ("gemini/gemini-3.8-flash", "audio image"),
        ("groq/openai/gpt-oss-20b", ""),
        ("http://127.0.0.1:1/v1#Qwen/Qwen2.5-VL-7B-Instruct", "image"),
        ("http://127.0.0.1:1/v1#own", ""),
    ],
)
def test_which_media_a_model_takes_is_known_by_its_name(name: str, kinds: str) -> None:
    """And can be said."""
    assert " ".join(sorted(media_of(model_of(name, api_key="k")))) == kinds
    assert media_of(model_of(name, api_key="k", media=["audio"])) == {"audio"}


def test_a_kind_that_there_is_not_is_refused() -> None:
    """At once, with those that there are."""
    with pytest.raises(
        Refused,
        match=r"media is 'images', but 'images' is not a kind of media: did you mean 'image'\?",
    ):
        model_of("http://127.0.0.1:1/v1#own", media="images")


def test_a_model_that_does_not_take_a_part_is_an_error() -> None:
    """It says which, and what to do; nothing is asked."""
    told = error_of(asking(image(), {"type": "audio", "url": url_of("audio/wav")}), media="image")
    assert told.startswith("JudgeError: http://127.0.0.1:")
    assert (
        "#test takes text, image, and cannot take m1.audio1 (audio/wav, 8,044 bytes): ask a model that takes audio"
        in told
    )
    # A file may turn out to be what the model takes.
    untyped = {"type": "file", "file": {"file_data": b64(MEDIA["image/png"])}}
    assert scored(asking(untyped), media="image")[0].score == 1.0
    assert "cannot take m1.file1" in error_of(asking(untyped), media="audio")


class InText(Autograder):
    async def judge(self, to_grade: str, rubric: Any, query: str | None = None) -> Any:
        return ["MET"] * len(rubric)


@pytest.mark.parametrize(
    "grader", [InText(), PerCriterionGrader(FakeModel("MET")), Panel([InText()] * 2)]
)
def test_a_judge_that_reads_text_alone_is_never_asked_with_less(grader: Any) -> None:
    """Neither a grader of one's own, nor a function of two texts, nor a panel around one."""
    [report] = run(
        Rubric([CRITERION], judge=grader).score(
            [Rollout(prompt=asking(image()), completion="Red.")]
        )
    )
    assert report.score is None
    assert "cannot take m1.image1" in report.errors["names_it"]


def test_one_judge_of_a_panel_that_cannot_see_is_an_error_of_its_own() -> None:
    """The other one has its vote."""
    with ModelServer("MET") as server:
        seeing, blind = (
            PerCriterionGrader(model=model_of(server.model, media=kinds)) for kinds in ("image", ())
        )
        rubric = Rubric([CRITERION], judge=Panel([seeing, blind]))
        [report] = run(rubric.score([Rollout(prompt=asking(image()), completion="Red.")]))
        assert [(vote.verdict, vote.error is None) for vote in report.lines[0].lines] == [
            ("MET", True),
            (None, False),
        ]


# What is broken


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            image("data:image/png;base64," + b64(MEDIA["image/jpeg"])),
            "m1.image1 is declared as image/png, but its bytes are those of image/jpeg",
        ),
        (
            image("data:image/svg+xml;base64," + b64(b"<svg onload=alert(1)>")),
            "m1.image1 is declared as image/svg+xml, but its bytes begin with b'<svg onload=': give one of image/png",
        ),
        (
            image("data:image/png;base64,iVBORw0KGgo="),
            "m1.image1 begins like image/png, but its size cannot be read: the image is broken",
        ),
        (
            image("data:image/jpeg;base64," + b64(b"\xff\xd8" + b"\xff" * 30_000)),
            "m1.image1 begins like image/jpeg, but its size cannot be read",
        ),
        (
            image("data:image/png;base64,!!!"),
            "m1.image1 has no content that can be read (image/png, 0 bytes",
        ),
        (
            {"type": "image", "image": PDF},
            "m1.image1 is declared as image, but its bytes are those of application/pdf",
        ),
        (
            {"type": "image"},
            "m1.image1 has no content that can be read (image): give its bytes, a path or a URL",
        ),
        (
            {"type": "file", "file": {"file_id": "file-7"}},
            "m1.file1 has no content that can be read (file, file_id file-7)",
        ),
        (
            {"fileData": {"fileUri": "gs://bucket/a.png", "mimeType": "image/png"}},
            "m1.image1 has no content that can be read",
        ),
        (
            {"type": "image", "image": MEDIA["image/png"] + bytes(MAX_BYTES)},
            "m1.image1 has 20,971,6",
        ),
    ],
)
def test_broken_and_mistyped_media_are_an_error_of_their_rollout(part: Any, words: str) -> None:
    """It says what they are; no endpoint is asked."""
    assert words in error_of(asking(part))


def test_media_that_are_too_large_together_are_an_error() -> None:
    """Each may be small enough."""
    half = {"type": "audio", "audio": sound() + bytes(MAX_BYTES // 2)}
    assert "the 2 images, clips and files of this rollout have 20,987," in error_of(
        asking(half, half)
    )


def test_what_a_provider_does_not_take_is_said() -> None:
    """Audio that OpenAI does not know."""
    assert "m1.audio1 is audio/flac, but this endpoint accepts only wav and mp3" in error_of(
        asking({"type": "audio", "audio": b"fLaC" + bytes(99)})
    )


# What is kept


def test_verdicts_are_kept_by_the_content_of_media(tmp_path: Path) -> None:
    """The same image in another shape has its verdict already; another image is another question."""
    with ModelServer("MET") as server:
        model = model_of(server.model, media="image", cache=tmp_path)
        rubric = Rubric([CRITERION], judge=PerCriterionGrader(model=model))
        same = {"type": "image", "image": MEDIA["image/png"]}
        other = {"type": "image", "image": picture("PNG", color="blue")}
        for part in (image(), same, other):
            assert (
                run(rubric.score([Rollout(prompt=asking(part), completion="Red.")]))[0].score == 1.0
            )
        assert server.calls == 2


def test_a_log_holds_a_digest_in_place_of_the_content() -> None:
    """And the key of a cache does."""
    with ModelServer("MET") as server, log_calls() as calls:
        rubric = Rubric(
            [CRITERION], judge=PerCriterionGrader(model=model_of(server.model, media="image"))
        )
        rubric.score_rollout_sync(prompt=asking(image()), completion="Red.")
    told = json.dumps([call._asdict() for call in calls])
    assert '"media_type": "image/png"' in told
    assert b64(MEDIA["image/png"])[:40] not in told


# What it takes


@pytest.mark.parametrize(
    ("media_type", "size", "expected"),
    [
        # By hand: 1024 × 1024 is scaled to 768 × 768, four tiles; 4096 × 2048 to 1536 × 768, six.
        ("image/png", (1024, 1024), {"openai": 85 + 170 * 4, "anthropic": 1399, "gemini": 258 * 4}),
        (
            "image/jpeg",
            (4096, 2048),
            {"openai": 85 + 170 * 6, "anthropic": 1600, "gemini": 258 * 6 * 3},
        ),
        ("image/webp", (40, 30), {"openai": 255, "anthropic": 2, "gemini": 258}),
        ("image/gif", (300, 200), {"openai": 255, "anthropic": 80, "gemini": 258}),
        ("audio/wav", None, {"openai": 6, "gemini": 17}),
        ("audio/mpeg", None, {"openai": 3, "gemini": 9}),
        ("application/pdf", None, {"openai": 4000, "anthropic": 4000, "gemini": 516}),
    ],
)
def test_tokens_of_media_are_estimated_by_the_rule_of_each_maker(
    media_type: str, size: Any, expected: dict[str, int]
) -> None:
    """From the width and height in the header, the seconds of audio and the pages of a PDF."""
    data = (
        MEDIA[media_type] if size is None else picture(media_type.partition("/")[2].upper(), size)
    )
    medium = Medium("m1.image1", media_type, data)
    assert {maker: medium.tokens(maker) for maker in expected} == expected
    assert size is None or medium.size == size


@pytest.mark.parametrize("lossless", [True, False])
def test_the_size_of_every_kind_of_webp_is_read(lossless: bool) -> None:
    """Lossy, lossless, and with transparency."""
    for mode in ("RGB", "RGBA"):
        file = io.BytesIO()
        Image.new(mode, (321, 123)).save(file, "WEBP", lossless=lossless)
        assert Medium("", "image/webp", file.getvalue()).size == (321, 123)


def test_a_dry_run_counts_media() -> None:
    """In tokens and in dollars."""
    model = model_of("http://127.0.0.1:1/v1#own", media="image", price=Price(1.0, 0.0))
    rubric = Rubric([CRITERION], judge=PerCriterionGrader(model=model))
    spent = []
    for parts in ([], [{"type": "image", "image": picture("PNG", (1024, 1024))}]):
        with dry_run() as ledger:
            rubric.score_rollout_sync(prompt=asking(*parts), completion="Red.")
        spent.append((ledger.usage.prompt, ledger.cost))
    assert 765 <= spent[1][0] - spent[0][0] < 900
    assert spent[1][1] - spent[0][1] == pytest.approx((spent[1][0] - spent[0][0]) / 1e6)


# Paths and URLs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a picture, beside one that is not to be read, and a link to that."""
    folder = tmp_path / "data"
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "1.png").write_bytes(MEDIA["image/png"])
    (tmp_path / "secret.png").write_bytes(MEDIA["image/png"])
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    return folder


@pytest.mark.parametrize("shape", ["path", "url", "file"])
def test_files_of_an_allowed_folder_are_read(folder: Path, shape: str) -> None:
    """By a path in the folder, or a `file:` URL."""
    named: dict[str, Any] = {
        "path": {"type": "image", "path": "cats/1.png"},
        "url": image("cats/1.png"),
        "file": {
            "type": "image",
            "source": {"type": "url", "url": (folder / "cats" / "1.png").as_uri()},
        },
    }
    assert "but no folder may be read: use media_access(folder)" in error_of(asking(named[shape]))
    with media_access(folder):
        report, server = scored(asking(named[shape]))
    assert report.score == 1.0
    assert url_of("image/png") in str(server.requests[0].body)
    assert "cats" not in str(server.requests[0].body)  # the name of a file may give the answer away


@pytest.mark.parametrize(
    "path",
    [
        "../secret.png",
        "link.png",
        "cats/../../secret.png",
        "{parent}/secret.png",
        "file://{parent}/secret.png",
        "file:///etc/passwd",
        "cats",
        "none.png",
        "a\0b",
        "x" * 5000,
        "/dev/zero",
    ],
)
def test_no_path_leads_out_of_the_folder(folder: Path, path: str) -> None:
    """Neither by `..`, nor by a link, nor by its name from the root; what is no file is none."""
    with media_access(folder):
        told = error_of(asking({"type": "image", "path": path.format(parent=folder.parent)}))
    assert "names the file" in told
    assert "which is not in" in told or "which cannot be read" in told


def test_a_response_names_no_files(folder: Path) -> None:
    """A model under test could name any; its bytes are taken."""
    for place in ("cats/1.png", "file:///etc/passwd", "/etc/passwd"):
        said = [
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "Here."}, {"type": "image", "path": place}],
            }
        ]
        with media_access(folder):
            assert (
                f"names the file '{place}', but a response may not name files: give its bytes"
                in error_of("Draw it.", said)
            )


def test_a_folder_that_is_none_is_refused() -> None:
    """At once."""
    with pytest.raises(MediaError, match="'nowhere' is not a folder"), media_access("nowhere"):
        pass


@pytest.fixture
def web() -> Iterator[Any]:
    """A server on this machine: pictures, redirects, and answers that are too large or too slow."""
    from aiohttp import web as http

    async def answer(request: Any) -> Any:
        to = request.query.get("to")
        if to:
            raise http.HTTPFound(to)
        if request.path == "/large":
            return http.Response(body=bytes(MAX_BYTES + 1))
        return http.Response(
            body=MEDIA["image/png"],
            status=404 if request.path == "/none" else 200,
            content_type="text/html",
        )

    async def serve() -> None:
        server = await loop.create_server(http.Server(answer, access_log=None), "127.0.0.1", 0)
        started.set_result(server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()

    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    started: Future[int] = Future()
    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    yield started.result()
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def test_urls_are_fetched_when_that_is_allowed(web: int) -> None:
    """Off by default, and never from this machine but for tests; what was fetched is shown by its content."""
    url = f"http://localhost:{web}/cat.png?key=s3cret"
    told = error_of(asking(image(url)))
    assert (
        f"m1.image1 is at 'http://localhost:{web}/cat.png', but URLs are not fetched unless that is allowed"
        in told
    )
    assert "s3cret" not in told
    with media_access(urls=True, allow_private=True):
        report, server = scored(asking(image(url)))
    assert report.score == 1.0
    assert url_of("image/png") in str(server.requests[0].body)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.org/cat.png", "give a URL that begins with https://"),
        ("https://127.0.0.1:{port}/cat.png", "127.0.0.1 is not a public address"),
        ("https://localhost:{port}/cat.png", "is not a public address"),
        ("https://2130706433:{port}/", "cannot be fetched"),
        ("https://[::1]:{port}/", "::1 is not a public address"),
        ("https://[::ffff:127.0.0.1]:{port}/", "127.0.0.1 is not a public address"),
        ("https://[64:ff9b::7f00:1]/", "is not a public address"),
        ("https://169.254.169.254/latest/meta-data", "169.254.169.254 is not a public address"),
        ("https://10.0.0.1/", "10.0.0.1 is not a public address"),
        ("https://[broken/", "is not a URL"),
    ],
)
def test_private_addresses_are_not_fetched_from(web: int, url: str, words: str) -> None:
    """However they are spelled."""
    with media_access(urls=True):
        assert words in error_of(asking(image(url.format(port=web)))).replace("'", "")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("?to=file:///etc/passwd", "file:///etc/passwd"),
        ("none", "returned status 404"),
        ("large", "is longer than 20,971,520 bytes"),
    ],
)
def test_an_answer_is_bounded_and_redirects_are_looked_at(web: int, path: str, words: str) -> None:
    """No address can lead to a file."""
    with media_access(urls=True, allow_private=True):
        assert words in error_of(asking(image(f"http://127.0.0.1:{web}/{path}")))


def test_what_a_file_claims_does_not_use_up_a_limit_of_tokens() -> None:
    """100,000 pages count as 1,000; a WAV of 1 byte per second as one of 4,000 bytes per second.

    A page has 100 bytes at least, and a side of an image counts up to 8,192 pixels, which is 11 tiles.
    """
    pdf = Medium("m1", "application/pdf", b"%PDF-1.4\n" + b"/Type/Page " * 100_000)
    assert pdf.tokens("gemini") == 258_000
    short_pdf = Medium("m1", "application/pdf", b"/Type/Page ".ljust(1000) * 2)
    assert short_pdf.tokens("openai") == 4000
    dense_pdf = Medium("m1", "application/pdf", b"/Type/Page " * 1000)
    assert dense_pdf.tokens("openai") == 110 * 2000
    start = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    image = Medium("m1", "image/png", start + b"\x7f\xff\xff\xff" * 2)
    assert image.tokens("gemini") == 258 * 11 * 11
    header = b"RIFF\x00\x00\x00\x00WAVEfmt ".ljust(28, b"\0") + (1).to_bytes(4, "little")
    wav = Medium("m1", "audio/wav", header.ljust(40_000, b"\0"))
    assert wav.tokens("openai") == 100
