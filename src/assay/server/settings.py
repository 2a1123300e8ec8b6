"""Settings say where the server listens, what it allows, and which model judges."""

import os
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal

from assay import graders, models, tools
from assay.aggregation import POLICIES, Policy
from assay.errors import AssayError
from assay.parsers import Parser
from assay.reasoning import Thinking
from assay.wording import format_value, suggest_word

KEY: Final = "ASSAY_SERVER_KEY"  # the environment variable that holds the key


class SettingsError(AssayError, ValueError):
    """The server cannot run as it was told to."""


@dataclass(frozen=True)
class Bounds:
    """How much one worker process takes on, and how long it may take."""

    at_once: int = 1024  # scoring requests under way at once; more are refused with 429
    max_bytes: int = (
        16 << 20
    )  # size of one request. Together, those under way may take eight times as much
    max_batch: int = 1024  # rollouts in one request
    # How long one rollout may take to score; then it is unscored. A check that never waits is not stopped.
    item_seconds: float = 60.0
    body_seconds: float = 30.0  # how long a client may take to send a request
    drain_seconds: float = (
        30.0  # how long requests under way may go on once the server is told to stop
    )

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name.endswith("_seconds"):
                if not 0 < value < float("inf"):
                    raise SettingsError(f"{name} is {value}: give a number of seconds above 0")
            elif not value >= 1:
                raise SettingsError(f"{name} is {value}: give 1 or more")


@dataclass(frozen=True)
class Judge:
    """The model that answers judged criteria, and how it is asked."""

    model: str | None = None  # a name as `model_of` takes it; None is the default model
    grader: Literal["per-criterion", "one-shot", "holistic"] = "per-criterion"
    guard: bool = False  # ask first whether a text holds a prompt injection
    cache: str | None = None  # where verdicts are kept; None is nowhere
    budget: float | None = None  # dollars that all workers together may spend; None is no limit
    shows: tuple[
        str, ...
    ] = ()  # what it reads of a rollout, before what a rubric says; the rubric says so when empty

    # Whether judges and text checks read reasoning, and the parser that checks read with; None is
    # what the rubric says.
    thinking: Thinking | None = None
    parser: Parser | None = None
    # Tokens that the model takes in one call; None is what is known of it. A longer text is read in pieces.
    window: int | None = None
    # A folder at whose files it may look before it answers about a criterion; None is none.
    workspace: str | None = None

    def grader_around(self, model: "models.Model") -> "graders.Grader":
        """The grader of this kind that asks a model, behind a guard on request."""
        kinds = {
            "per-criterion": graders.PerCriterionGrader,
            "one-shot": graders.PerCriterionOneShotGrader,
        }
        grader = kinds.get(self.grader, graders.RubricAsJudgeGrader)(
            model=model, window=self.window
        )
        if self.workspace:
            grader = graders.ToolJudge(
                [tools.Workspace(self.workspace)], model=model, window=self.window
            )
        return graders.Guarded(grader) if self.guard else grader


@dataclass(frozen=True)
class Settings:
    """Where the server listens, and what it allows.

    >>> Settings(port=9000).url
    'http://127.0.0.1:9000'
    """

    host: str = "127.0.0.1"
    port: int = 8000  # 0 takes any that is free
    workers: int = 1
    # What goes where a trainer takes a number only, and there is none: `raise` answers with an error, `zero` with 0,
    # `group_mean` with the mean of the scored rollouts of the same prompt in the same request, `drop` with null (for
    # NeMo-Gym, with a row marked as failed).
    unscored: Policy = "raise"
    # What every request but health and readiness must carry; may be empty on loopback only.
    key: str = field(default="", repr=False)
    # Names that requests may give the server, besides its address and those of this machine. Looked at where any are
    # given, and where there is no key, since then a page in a browser could ask under a name of its own.
    allow_hosts: tuple[str, ...] = ()
    bounds: Bounds = Bounds()
    # A file that gets the signs of reward hacking, a line of JSON for every 256 rollouts of a worker; None watches
    # nothing.
    monitor: str | None = None

    def __post_init__(self) -> None:
        if not self.workers >= 1:
            raise SettingsError(f"workers is {self.workers}: give 1 or more")
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"port is {self.port}: give one from 0 to 65535")
        if self.unscored not in POLICIES:
            raise SettingsError(
                f"unscored is {format_value(self.unscored)}: {suggest_word(self.unscored, POLICIES)}"
            )
        if self.monitor is not None and (
            Path(self.monitor).is_dir() or not Path(self.monitor).parent.is_dir()
        ):
            raise SettingsError(
                f"monitor is {format_value(self.monitor)}: name a file in a folder that is there"
            )
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise SettingsError("the key holds spaces or signs that no header can: make a new one")
        if not self.key and not is_loopback(self.host):
            told = f"on {self.host} others can reach the server, and no key is set"
            raise SettingsError(f"{told}: set {KEY}, name a key file, or listen on 127.0.0.1")

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def key_from(file: str | Path | None) -> str:
    """The key of the server: from a file, else from the environment; empty when there is none."""
    if file is None:
        return os.environ.get(KEY, "").strip()
    key = Path(file).read_text(encoding="utf-8").strip()
    if not key:
        raise SettingsError(f"the key file {file} is empty: put one line with the key into it")
    return key
