"""Read the images, audio and PDFs of a rollout: from bytes, and if allowed from folders and URLs."""

from __future__ import annotations

import asyncio
import json
import re
import struct
import wave
from array import array
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
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
    ALLOWED_MEDIA,
    MEDIA_COLUMNS,
    Kind,
    Part,
    find_media_source,
    get_role,
    list_messages,
    read_parts,
)
from assay.tools.contained_folder import ContainedFolder, OutsideError
from assay.types import Message
from assay.wording import format_value

# The limit for one image, audio clip or file, and for all of them in one prompt, as providers set it.
MAX_BYTES: Final = 20 * 1024 * 1024

# The media types that are supported, and the kind of each.
KIND_BY_MEDIA_TYPE: Final[Mapping[str, Kind]] = {
    "image/png": "image",
    "image/jpeg": "image",
    "image/webp": "image",
    "image/gif": "image",
    "audio/wav": "audio",
    "audio/mpeg": "audio",
    "audio/flac": "audio",
    "audio/ogg": "audio",
    "application/pdf": "file",
}
# Patterns of the first bytes of each type.
_SIGNATURES: Final[Mapping[str, bytes]] = {
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
# Other names of these types. `application/octet-stream` says nothing about the content, like no
# type at all.
_ALIASES: Final = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/wave": "audio/wav",
    "application/octet-stream": "",
}


def detect_media_type(data: bytes) -> str:
    """Return the media type that the first bytes show; empty for a type that is not supported."""
    for media_type, pattern in _SIGNATURES.items():
        if re.match(pattern, data, re.DOTALL):
            return media_type
    return ""


@dataclass
class Attachment:
    """An image, an audio clip or a file of a rollout; it is read when it is first shown."""

    part: Part
    _medium: Medium | None = None

    async def read(self) -> Medium:
        """Return the content.

        Raises `MediaError` if it cannot be read, is too large, or is not of its declared type.
        """
        if self._medium is None:
            source = find_media_source(self.part.original)
            data = source.content
            if data is None and _get_scheme(source.location) in ("http", "https"):
                data = await _fetch(self.part.address, source.location)
            # If there is no data yet, `read_medium` reads a file, which must not block the loop.
            self._medium = await asyncio.to_thread(read_medium, self.part, data)
        return self._medium


def read_medium(part: Part, data: bytes | None = None) -> Medium:
    """Return the content of a part: `data` if given, its own bytes, or the file that it names.

    Raises `MediaError` like `Attachment.read`.
    """
    source = find_media_source(part.original)
    data = data or source.content or _read_file(part, source.location)
    if len(data) > MAX_BYTES:
        raise MediaError(
            f"{part.address} has {len(data):,} bytes, more than {MAX_BYTES:,}: make it smaller"
        )
    media_type = detect_media_type(data)
    _check_media_type(part, source.media_type, media_type, data)
    medium = Medium(part.address, media_type, data)
    if medium.kind == "image":
        _ = medium.size  # raises for a broken image
    return medium


def _check_media_type(part: Part, declared_type: str, detected_type: str, data: bytes) -> None:
    """Raise `MediaError` unless the type that the bytes show is supported and as declared.

    A part declares a media type, such as `image/png`, or only its kind. A part of the kind "file"
    may be of any supported type. Both types are empty if they are not known.
    """
    declared_type = _normalise_media_type(declared_type)
    if declared_type:
        is_as_declared = detected_type == declared_type
    else:
        is_as_declared = part.kind in ("file", KIND_BY_MEDIA_TYPE.get(detected_type))
    if detected_type and is_as_declared:
        return
    if detected_type:
        actual = f"its bytes are those of {detected_type}"
    else:
        actual = f"its bytes begin with {data[:12]!r}"
    raise MediaError(
        f"{part.address} is declared as {declared_type or part.kind}, but {actual}: "
        f"give one of {', '.join(KIND_BY_MEDIA_TYPE)}"
    )


def _normalise_media_type(media_type: str) -> str:
    """Return the usual name of a media type: `audio/wav` for `audio/x-wav` and `audio/wave`.

    The result is empty if the type says nothing about the content.
    """
    name = re.sub(r"/(x-|vnd\.)", "/", media_type.lower())
    return _ALIASES.get(name, name)


def _get_scheme(location: str) -> str:
    """Return the scheme of a URL in lower case; empty for a path."""
    match = re.match(r"([a-z][a-z0-9+.-]+)://", location, re.IGNORECASE)
    return match[1].lower() if match else ""


async def _fetch(address: str, url: str) -> bytes:
    """Return the content of a URL, if URLs may be fetched."""
    allowed = ALLOWED_MEDIA.get()
    shown_url = format_value(url.partition("?")[0])  # the query may hold a key
    if not allowed.urls:
        raise MediaError(
            f"{address} is at {shown_url}, but URLs are not fetched unless that is allowed: "
            "give its bytes, or use media_access(urls=True) in Python "
            "or --media-urls on the command line"
        )
    http = import_module("assay.models.http")  # imported late, because it needs aiohttp
    try:
        response = await http.fetch_url(
            url, most_bytes=MAX_BYTES, allow_private=allowed.allow_private
        )
    except http.FetchError as error:
        raise MediaError(f"{address}: {str(error).replace(url, shown_url)}") from None
    return response.body


def _read_file(part: Part, location: str) -> bytes:
    """Return the content of a file that a prompt names, if it is in one of the allowed folders.

    Of a file that is too large, only one byte more than allowed is read.
    """
    scheme = _get_scheme(location)
    if not location or scheme not in ("", "file"):
        raise MediaError(
            f"{part.address} has no content that can be read ({part.text[:200]}): "
            "give its bytes, a path or a URL"
        )
    named_file = f"{part.address} names the file {format_value(location)}"
    if not part.in_prompt:
        raise MediaError(f"{named_file}, but a response may not name files: give its bytes")
    folders = ALLOWED_MEDIA.get().folders
    if not folders:
        raise MediaError(
            f"{named_file}, but no folder may be read: use media_access(folder) in Python "
            "or --media-folder FOLDER on the command line"
        )
    name = unquote(urlsplit(location).path) if scheme == "file" else location
    for folder in folders:
        try:
            with ContainedFolder(folder.resolve()) as contained_folder:
                content = contained_folder.open(name).read_and_close(MAX_BYTES + 1)
            if content is not None:
                return content[0]
        except (OutsideError, FileNotFoundError, NotADirectoryError):
            continue  # it may be in another folder
        except (OSError, ValueError) as error:
            raise MediaError(f"{named_file}, which cannot be read: {error}") from None
    raise MediaError(f"{named_file}, which is not in {', '.join(map(str, folders))}")


@dataclass(frozen=True)
class Medium:
    """An image, an audio clip or a PDF. Its bytes were checked to be of its media type."""

    address: str
    media_type: str
    data: bytes = field(repr=False)

    @property
    def kind(self) -> Kind:
        """Its kind: image, audio or file."""
        return KIND_BY_MEDIA_TYPE[self.media_type]

    @cached_property
    def base64(self) -> str:
        return b64encode(self.data).decode()

    @property
    def url(self) -> str:
        """The content as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.base64}"

    @cached_property
    def description(self) -> dict[str, Any]:
        """A description for cache keys and logs, with a hash in place of the content."""
        return {
            "type": self.kind,
            "media_type": self.media_type,
            "bytes": len(self.data),
            "sha256": sha256(self.data).hexdigest(),
        }

    @cached_property
    def size(self) -> tuple[int, int]:
        """The width and height of an image, from its header; raises `MediaError` without them."""
        try:
            width, height = _read_image_size(self.media_type, self.data)
        except struct.error:  # the header is cut off
            width, height = 0, 0
        if not width or not height:
            raise MediaError(
                f"{self.address} begins like {self.media_type}, but its size cannot be read: "
                "the image is broken"
            )
        return width, height

    def tokens(self, maker: str) -> int:
        """Estimate the number of tokens for a model of this maker, such as "openai" or "gemini".

        `docs/concepts/models.md` has the rules.
        """
        if self.kind == "image":
            return _count_image_tokens(maker, *self.size)
        if self.kind == "audio":
            return _count_audio_tokens(maker, self.media_type, self.data)
        # What remains is a PDF.
        page_count = len(re.findall(rb"/Type\s*/Page\b", self.data)) or 1
        page_count = min(page_count, _MAX_PAGES, ceil(len(self.data) / _MIN_BYTES_PER_PAGE))
        tokens_per_page = 258 if maker == "gemini" else 2_000
        return page_count * tokens_per_page


# A file may claim anything, and what it claims must not use up a limit of tokens per minute.
_MAX_PAGES: Final = 1000  # as many as a provider reads
_MIN_BYTES_PER_PAGE: Final = 100  # a page without anything on it
_MAX_IMAGE_SIDE: Final = 8192  # pixels; providers scale down what is larger
_MIN_BYTES_PER_SECOND: Final = 4_000  # speech at 8 kHz, 4 bits each


def _count_image_tokens(maker: str, width: int, height: int) -> int:
    """Estimate the tokens of an image of this size, by the rules of the model's maker."""
    if maker == "anthropic":
        return min(1600, ceil(width * height / 750))
    if maker == "gemini":
        width, height = min(width, _MAX_IMAGE_SIDE), min(height, _MAX_IMAGE_SIDE)
        return 258 * ceil(width / 768) * ceil(height / 768)
    # OpenAI: the image is scaled to at most 2048 × 2048, then its shorter side to at most 768. It
    # costs 85 tokens, and 170 for each tile of 512 × 512 pixels.
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (scale * min(width, height)))
    tile_count = ceil(width * scale / 512) * ceil(height * scale / 512)
    return 85 + 170 * tile_count


def _count_audio_tokens(maker: str, media_type: str, data: bytes) -> int:
    """Estimate the tokens of an audio clip from its length in seconds."""
    bytes_per_second = 0
    if media_type == "audio/wav":
        bytes_per_second = int.from_bytes(data[28:32], "little")  # a field of the WAV header
    if bytes_per_second == 0:
        bytes_per_second = 16_000  # an assumption: 128 kbit per second
    bytes_per_second = max(bytes_per_second, _MIN_BYTES_PER_SECOND)
    tokens_per_second = 32 if maker == "gemini" else 10
    return ceil(len(data) / bytes_per_second * tokens_per_second)


def _read_image_size(media_type: str, data: bytes) -> tuple[int, int]:
    """Return the width and height of an image, from its header.

    Raises struct.error if the header is too short.
    """
    if media_type == "image/png":
        width, height = struct.unpack(">II", data[16:24])
    elif media_type == "image/gif":
        width, height = struct.unpack("<HH", data[6:10])
    elif media_type == "image/webp":
        width, height = _read_webp_size(data)
    else:
        width, height = _read_jpeg_size(data)
    return width, height


def _read_webp_size(data: bytes) -> tuple[int, int]:
    """Return width and height of a WebP image, which has one of three headers."""
    chunk_type = data[12:16]
    if chunk_type == b"VP8X":  # extended: each side minus 1, in 24 bits
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
    elif chunk_type == b"VP8L":  # lossless: each side minus 1, in 14 bits
        [bits] = struct.unpack("<I", data[21:25])
        width = (bits & 0x3FFF) + 1
        height = (bits >> 14 & 0x3FFF) + 1
    else:  # lossy: each side in the lower 14 of 16 bits
        width, height = (side & 0x3FFF for side in struct.unpack("<HH", data[26:30]))
    return width, height


# The start of a JPEG frame: marker, length, 8 bits per sample, then height and width.
_JPEG_FRAME: Final = re.compile(
    rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]\x00[\x0b\x0e\x11\x14]\x08(....)", re.DOTALL
)


def _read_jpeg_size(data: bytes) -> tuple[int, int]:
    """Return width and height of a JPEG image; (0, 0) if no frame is found."""
    # A photograph may hold a thumbnail too, so the largest frame is the image.
    sizes = [struct.unpack(">HH", size) for size in _JPEG_FRAME.findall(data)]
    height, width = max(sizes, default=(0, 0))
    return width, height


async def read_message_media(message: Message) -> Message:
    """Read the media that `add_media_columns` put into a user message.

    Returns a copy of the message with a `Medium` in place of each part that names or holds one. A
    message without such parts is returned unchanged.
    """
    content = message.get("content")
    if get_role(message) != "user" or not isinstance(content, list):
        return message
    media_by_id: dict[int, Medium] = {}  # by the `id()` of the part, since a dict cannot be a key
    for part in read_parts([message]):
        if _is_from_column(part.original):
            media_by_id[id(part.original)] = await Attachment(part).read()
    if not media_by_id:
        return message
    entries = cast("list[Any]", content)
    new_content = tuple(media_by_id.get(id(entry), entry) for entry in entries)
    return {**message, "content": new_content}


def _is_from_column(original: object) -> bool:
    """Return True if a part was written by `_read_cell`: it has a path, a URL or data."""
    return isinstance(original, Mapping) and any(
        name in original for name in ("path", "url", "data")
    )


def add_media_columns(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the media of its `MEDIA_COLUMNS` in its prompt.

    A chat for training may hold placeholders, such as `{"type": "image"}`: these are replaced
    first. The remaining media are put before the content of the last user message.
    """
    media: list[dict[str, Any]] = []
    for name, kind in MEDIA_COLUMNS.items():
        media.extend(_read_cell(row.get(name), kind))
    if not media:
        return row
    chat = [dict(message) for message in _read_prompt(row)]
    for message in chat:
        if isinstance(message.get("content"), list):
            # Each medium that fills a placeholder is removed from `media`.
            message["content"] = [_fill_placeholder(part, media) for part in message["content"]]
    if all(get_role(message) != "user" for message in chat):
        chat.append({"role": "user"})
    last_user_message = next(message for message in reversed(chat) if get_role(message) == "user")
    content: Any = last_user_message.get("content") or []
    if media:
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        content = [*media, *content]
    last_user_message["content"] = content
    return {**row, "prompt": chat}


def _read_prompt(row: Mapping[str, Any]) -> Any:
    """Return the messages of a row's prompt, from the first of three columns that has a value."""
    prompt: Any = ""
    for name in ("prompt", "question", "query"):
        value = row.get(name)
        if value is not None:
            prompt = value
            break
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return list_messages(prompt)


def _fill_placeholder(part: Any, media: list[dict[str, Any]]) -> Any:
    """Return the medium that replaces a part if the part is a placeholder; else the part itself.

    A placeholder is a part with no other field than its type, such as `{"type": "image"}`. The
    first of `media` with this type replaces it, and is removed from `media`.
    """
    if not hasattr(part, "items"):
        return part
    fields = {key: value for key, value in part.items() if value is not None}
    for index, medium in enumerate(media):
        if fields == {"type": medium["type"]}:
            return media.pop(index)
    return part


def _read_cell(value: Any, kind: Kind) -> Iterator[dict[str, Any]]:
    """Yield the media in a cell of a table as parts of a message.

    A cell holds None, a path, a URL, bytes, a Pillow image, a record of a Hugging Face dataset, or
    a list of these. The record is a file, with `bytes` or `path`, or decoded audio, with `array`.
    """
    items = _list_items(value)
    if items is not None:
        for item in items:
            yield from _read_cell(item, kind)
    elif isinstance(value, str):
        is_url = bool(_get_scheme(value)) or value.startswith("data:")
        if value:
            yield {"type": kind, "url" if is_url else "path": value}
    elif hasattr(value, "get") and "array" not in value:
        yield from _read_cell(value.get("bytes") or value.get("path"), kind)
    elif value is not None:
        data = bytes(value) if isinstance(value, bytes | bytearray) else _encode(value)
        yield {
            "type": kind,
            "media_type": detect_media_type(data),
            "data": b64encode(data).decode(),
        }


def _list_items(value: Any) -> Sequence[Any] | None:
    """Return the items of a cell that holds a list; None for any other cell.

    The list may also be a NumPy array, or, in a CSV file, the JSON text of a list.
    """
    items: Any = value
    if isinstance(value, str):
        if value.startswith("["):
            with suppress(ValueError):
                items = json.loads(value)
    elif hasattr(value, "tolist"):
        items = value.tolist()
    return cast("Sequence[Any]", items) if isinstance(items, list | tuple) else None


def _encode(value: Any) -> bytes:
    """Return a Pillow image as PNG, and decoded audio of a Hugging Face dataset as WAV.

    Anything else becomes a short description, which is refused when the media are read.
    """
    if hasattr(value, "save"):
        return _encode_png(value)
    if hasattr(value, "__getitem__"):
        return _encode_wav(value["array"], int(value["sampling_rate"]))
    return format_value(value).encode()


def _encode_png(image: Any) -> bytes:
    """Return a Pillow image as the content of a PNG file."""
    if image.mode in ("CMYK", "YCbCr", "LAB", "HSV", "F"):  # PNG cannot store these
        image = image.convert("RGB")
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _encode_wav(samples: Any, sampling_rate: int) -> bytes:
    """Return samples between -1 and 1 as a WAV file: mono, with 16 bits per sample."""
    has_channels = len(getattr(samples, "shape", ())) > 1
    if has_channels:
        samples = samples.mean(0)
    levels = [round(32767 * max(-1, min(1, sample))) for sample in samples]
    file = BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sampling_rate)
        writer.writeframes(array("h", levels).tobytes())
    return file.getvalue()
