"""Install each peer in its own virtual environment, once, at an exact version.

One environment a peer, because their dependencies disagree, and so that none of them is ever a
dependency of assay.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENTS = Path(__file__).parent / ".venvs"
INSTALL_SECONDS = 1800


@dataclass(frozen=True)
class Peer:
    """A package to compare with, and the dependency versions it was measured with."""

    package: str
    version: str
    pins: tuple[str, ...] = ()
    """Every peer imports with the newest versions of its dependencies. These hold the few that
    decide its import time and its cost per call, so that figures of two dates compare."""
    label: str = ""
    """What the subject is called when the package's name does not tell it from another."""

    @property
    def name(self) -> str:
        return self.label or self.package

    @property
    def requirements(self) -> tuple[str, ...]:
        return (f"{self.package}=={self.version}", *self.pins)

    @property
    def module(self) -> str:
        return self.package.replace("-", "_")

    @property
    def environment(self) -> Path:
        return ENVIRONMENTS / self.name.replace(" ", "-")

    @property
    def interpreter(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """Written last, so that an interrupted installation is never taken for a finished one."""
        return self.environment / ".installed"


PEERS = (
    Peer(
        "verifiers",
        "0.1.11",
        # openai-agents, which brings mcp, and datasets, which brings pyarrow and pandas, are
        # most of its import.
        (
            "openai-agents==0.24.0",
            "mcp==2.3.0",
            "openai==3.49.0",
            "anthropic==2.8.0",
            "datasets==4.6.1",
            "pyarrow==26.0.1",
            "pandas==3.1.1",
            "pydantic==2.14.3",
        ),
    ),
    # google-genai is nearly all of its import. openai is the client its own README asks with; it
    # does not import that itself.
    Peer("rubric", "2.2.0", ("google-genai==3.1.0", "openai==3.49.0", "pydantic==2.14.3")),
    # litellm is most of its import and the floor of its calls; scipy, scikit-learn and
    # statsmodels are the rest of the import.
    Peer(
        "autorubric",
        "1.6.1",
        (
            "litellm==1.106.2",
            "openai==2.54.0",
            "scipy==1.17.1",
            "scikit-learn==1.9.1",
            "statsmodels==0.15.0",
            "pydantic==2.14.3",
        ),
    ),
)


@dataclass(frozen=True)
class Installed:
    """The interpreters that can be used, and a sentence for each peer that has none."""

    interpreters: dict[str, Path]
    failures: tuple[str, ...]


def install(names: Collection[str], *, say: Callable[[str], None], peers: Sequence[Peer] = PEERS) -> Installed:
    """Make the named peers usable; one that cannot be installed does not stop the others."""
    interpreters: dict[str, Path] = {}
    failures: list[str] = []
    for peer in peers:
        if peer.name not in names:
            continue
        failure = None if _is_current(peer) else _build(peer, say)
        if failure is None:
            interpreters[peer.name] = peer.interpreter
        else:
            failures.append(failure)
    return Installed(interpreters, tuple(failures))


def _is_current(peer: Peer) -> bool:
    return peer.stamp.is_file() and peer.stamp.read_text() == _fingerprint(peer)


def _fingerprint(peer: Peer) -> str:
    return "\n".join((sys.version, *peer.requirements, ""))


def _build(peer: Peer, say: Callable[[str], None]) -> str | None:
    """A fresh environment; returns the sentence to report when that fails, None when it works."""
    say(f"installing {peer.package} {peer.version} into {peer.environment.name}/")
    shutil.rmtree(peer.environment, ignore_errors=True)
    pip = (str(peer.interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    commands = (
        (sys.executable, "-m", "venv", str(peer.environment)),
        (*pip, *peer.requirements),
        (str(peer.interpreter), "-c", f"import {peer.module}"),
    )
    for command in commands:
        failure = _run(command)
        if failure is not None:
            return f"{peer.package} {peer.version} could not be installed: {failure}"
    peer.stamp.write_text(_fingerprint(peer))
    return None


def _run(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {INSTALL_SECONDS} s"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines)[-1].strip()
