"""Read images, audio and PDFs out of the parts of a rollout: from bytes, and where it is allowed from a folder or a URL."""

import asyncio
import json
import re
import struct
import wave
from array import array
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from math import ceil
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from assay.errors import MediaError
from assay.messages import (
    MEDIA,
    MEDIA_COLUMNS,
    MEDIA_PLACES,
    Kind,
    Part,
    chat_of,
    media_source,
    parts_of,
    role_of,
)
from assay.types import Message
from assay.wording import short_repr

MOST_BYTES: Final = (
    20 << 20
)  # of one image, audio clip or file, and of all in one prompt: what providers take
_SIGNATURES: Final = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/webp": rb"RIFF....WEBP",
    "image/gif": rb"GIF8[79]a",
    "audio/wav": rb"RIFF....WAVE",
    "audio/mpeg": rb"ID3|\xff[\xe2-\xfb]",
    "audio/flac": rb"fLaC",
    "audio/ogg": rb"OggS",
    "application/pdf": rb"%PDF-",
}
KINDS: Final[Mapping[str, Kind]] = {
    n: cast("Kind", n[:5]) if n[:5] in MEDIA else "file" for n in _SIGNATURES
}
_ALIASES: Final = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/wave": "audio/wav",
    "application/octet-stream": "",
}


def type_of(data: bytes) -> str:
    """The media type that the bytes themselves show; empty for one that judges are not shown."""
    return next(
        (name for name, pattern in _SIGNATURES.items() if re.match(pattern, data, re.DOTALL)), ""
    )


@dataclass(frozen=True)
class Medium:
    """An image, an audio clip or a PDF whose bytes are what its type says."""

    address: str
    media_type: str
    data: bytes = field(repr=False)

    @property
    def kind(self) -> Kind:
        return KINDS[self.media_type]

    @cached_property
    def base64(self) -> str:
        return b64encode(self.data).decode()

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"

    @cached_property
    def told(self) -> dict[str, Any]:
        """What a cache key and a log hold of it: a digest in place of the content."""
        size, digest = len(self.data), sha256(self.data).hexdigest()
        return {"type": self.kind, "media_type": self.media_type, "bytes": size, "sha256": digest}

    @cached_property
    def size(self) -> tuple[int, int]:
        """Width and height of an image, by its header. Raises a `MediaError` when they are not there."""
        with suppress(struct.error, IndexError):
            width, height = _SIZES[self.media_type](self.data)
            if width and height:
                return width, height
        raise MediaError(
            f"{self.address} begins as {self.media_type} does, and its size cannot be read: it is broken"
        )

    def tokens(self, maker: str) -> int:
        """About how many tokens a model of this maker reads; `docs/concepts/models.md` has the rules."""
        if self.kind == "image":
            return _IMAGE_TOKENS.get(maker, _tiles)(*self.size)
        if self.kind == "audio":
            rate = (
                int.from_bytes(self.data[28:32], "little") if self.media_type == "audio/wav" else 0
            )
            seconds = len(self.data) / (rate or 16_000)  # without a rate: 128 kbit a second
            return ceil(seconds * (32 if maker == "gemini" else 10))
        return (len(re.findall(rb"/Type\s*/Page\b", self.data)) or 1) * (
            258 if maker == "gemini" else 2_000
        )


def _webp_size(data: bytes) -> Any:
    if data[12:16] == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[12:16] == b"VP8L":
        [bits] = struct.unpack("<I", data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return [side & 0x3FFF for side in struct.unpack("<HH", data[26:30])]


def _jpeg_size(data: bytes) -> Any:
    # The largest of those that frames say: a small picture may be inside, for a quick look at a photograph.
    frames = re.findall(
        rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]\x00[\x0b\x0e\x11\x14]\x08(....)",
        data,
        re.DOTALL,
    )
    return max((struct.unpack(">HH", size) for size in frames), default=(0, 0))[::-1]


def _tiles(width: int, height: int) -> int:
    """As OpenAI counts: 85, and 170 for each tile of 512 pixels once the image is scaled down."""
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (scale * min(width, height)))
    return 85 + 170 * ceil(width * scale / 512) * ceil(height * scale / 512)


_SIZES: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "image/png": lambda data: struct.unpack(">II", data[16:24]),
    "image/gif": lambda data: struct.unpack("<HH", data[6:10]),
    "image/webp": _webp_size,
    "image/jpeg": _jpeg_size,
}
_IMAGE_TOKENS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "anthropic": lambda width, height: min(1600, ceil(width * height / 750)),
    "gemini": lambda width, height: 258 * ceil(width / 768) * ceil(height / 768),
}


@dataclass
class Attachment:
    """An image, an audio clip or a file of a rollout, which is read once, when it is shown."""

    part: Part
    _medium: Medium | None = None

    async def read(self) -> Medium:
        """What it holds. Raises a `MediaError` when it cannot be read, is too large or not what it says."""
        if self._medium is None:
            _, data, place = media_source(self.part.original)
            if data is None and _scheme(place) in ("http", "https"):
                data = await _fetched(self.part.address, place)
            self._medium = await asyncio.to_thread(medium_of, self.part, data)
        return self._medium


def medium_of(part: Part, data: bytes | None = None) -> Medium:
    """What a part holds, or a file that it names; `data` is its content where it is known. Raises as `Attachment.read`."""
    declared, held, place = media_source(part.original)
    data = data or held or _file(part, place)
    if len(data) > MOST_BYTES:
        raise MediaError(
            f"{part.address} has {len(data):,} bytes, and {MOST_BYTES >> 20} MiB are the most: shrink it"
        )
    declared, found = re.sub(r"/(x-|vnd\.)", "/", declared.lower()), type_of(data)
    declared = _ALIASES.get(declared, declared)
    if (
        not found
        or (declared and declared != found)
        or (not declared and part.kind not in ("file", KINDS[found]))
    ):
        shows = (
            f"its bytes are those of {found}" if found else f"its bytes begin with {data[:12]!r}"
        )
        says = f"{part.address} says that it is {declared or part.kind}"
        raise MediaError(f"{says}, and {shows}: give one of {', '.join(KINDS)}")
    medium = Medium(part.address, found, data)
    if medium.kind == "image":
        _ = medium.size  # raises for a broken one
    return medium


def _scheme(place: str) -> str:
    found = re.match(r"([a-z][a-z0-9+.-]+)://", place, re.IGNORECASE)
    return found[1].lower() if found else ""


async def _fetched(address: str, url: str) -> bytes:
    places, shown = MEDIA_PLACES.get(), short_repr(url.partition("?")[0])
    if not places.urls:
        ways = "give its bytes, or say media_access(urls=True) in Python or --media-urls on the command line"
        raise MediaError(
            f"{address} is at {shown}, and URLs are not fetched unless that is allowed: {ways}"
        )
    fetch = import_module("assay.models.http")  # which needs aiohttp
    try:
        return (
            await fetch.fetched(url, most_bytes=MOST_BYTES, allow_private=places.allow_private)
        ).body
    except fetch.FetchError as error:
        raise MediaError(f"{address}: {str(error).replace(url, shown)}") from None


def _file(part: Part, place: str) -> bytes:
    if not place or _scheme(place) not in ("", "file"):
        told = f"{part.address} has no content that can be read ({part.text[:200]})"
        raise MediaError(f"{told}: give its bytes, a path or a URL")
    named, folders = (
        f"{part.address} names the file {short_repr(place)}",
        MEDIA_PLACES.get().folders,
    )
    if not part.in_prompt:
        raise MediaError(f"{named}, and a response may name none: give its bytes")
    if not folders:
        ways = "say media_access(folder) in Python or --media-folder FOLDER on the command line"
        raise MediaError(f"{named}, and no folder may be read: {ways}")
    given = unquote(urlsplit(place).path) if _scheme(place) else place
    for folder in folders:
        try:
            home = folder.resolve()
            path = (home / given).resolve()
            # Looked at once links are followed, so that none leads out of the folder.
            if path.is_relative_to(home) and path.is_file():
                with path.open("rb") as file:
                    return file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            raise MediaError(f"{named}, which cannot be read: {error}") from None
    raise MediaError(f"{named}, which is not in {', '.join(map(str, folders))}")


async def with_media(message: Message) -> Message:
    """A message of a user with the media read that `with_columns` put into it; any other as it is, for its endpoint."""
    if role_of(message) != "user" or not isinstance(message.get("content"), list):
        return message
    own = [
        p
        for p in parts_of([message])
        if {"path", "url", "data"} & {*getattr(p.original, "keys", tuple)()}
    ]
    read = {id(part.original): await Attachment(part).read() for part in own}
    return (
        {**message, "content": tuple(read.get(id(each), each) for each in message["content"])}
        if read
        else message
    )


def with_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the media of its `MEDIA_COLUMNS` in its prompt: where it keeps a place for them, else before its last text."""
    found = [part for name, kind in MEDIA_COLUMNS.items() for part in _column(row.get(name), kind)]
    if not found:
        return row

    def filled(part: Any) -> Any:
        """A part; for one that is a place alone, as chats for training have it, the next medium of its kind."""
        fields: Any = part.items() if hasattr(part, "items") else ()
        held = {key: value for key, value in fields if value is not None}
        medium = next((each for each in found if held == {"type": each["type"]}), None)
        return part if medium is None else found.pop(found.index(medium))

    asked: Any = next(
        (row[name] for name in ("prompt", "question", "query") if row.get(name) is not None), ""
    )
    turns: Any = [{"role": "user", "content": asked}] if isinstance(asked, str) else chat_of(asked)
    chat: list[dict[str, Any]] = list(map(dict, turns))
    for message in chat:
        if isinstance(message.get("content"), list):
            message["content"] = [*map(filled, message["content"])]
    if all(role_of(message) != "user" for message in chat):
        chat.append({"role": "user"})
    last = next(message for message in reversed(chat) if role_of(message) == "user")
    text: Any = last.get("content") or []
    texts: Any = [{"type": "text", "text": text}] if isinstance(text, str) else text
    last["content"] = [*found, *texts] if found else text
    return {**row, "prompt": chat}


def _column(value: Any, kind: Kind) -> Iterator[dict[str, Any]]:
    listed: Any = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str) and value.startswith("["):  # several, as a cell of CSV has them
        with suppress(ValueError):
            listed = json.loads(value)
    if isinstance(listed, list | tuple):
        yield from (part for each in cast("list[Any]", listed) for part in _column(each, kind))
    elif isinstance(value, str):
        yield from (
            [{"type": kind, "url" if _scheme(value) or value[:5] == "data:" else "path": value}]
            if value
            else ()
        )
    elif hasattr(value, "get") and "array" not in value:
        yield from _column(value.get("bytes") or value.get("path"), kind)
    elif value is not None:
        data = bytes(value) if isinstance(value, bytes | bytearray) else _encoded(value)
        yield {"type": kind, "media_type": type_of(data), "data": b64encode(data).decode()}


def _encoded(value: Any) -> bytes:
    """An image of Pillow as PNG, decoded audio as WAV; for anything else what it is, which no judge is shown."""
    file = BytesIO()
    if hasattr(value, "save"):
        (
            value.convert("RGB") if value.mode in ("CMYK", "YCbCr", "LAB", "HSV", "F") else value
        ).save(file, "PNG")
    elif hasattr(value, "__getitem__"):
        samples = value["array"]
        samples = (
            samples.mean(0) if len(getattr(samples, "shape", ())) > 1 else samples
        )  # of several channels
        with wave.open(file, "wb") as written:
            written.setparams((1, 2, int(value["sampling_rate"]), 0, "NONE", ""))
            written.writeframes(
                array("h", [round(32767 * max(-1, min(1, level))) for level in samples]).tobytes()
            )
    return file.getvalue() or short_repr(value).encode()
