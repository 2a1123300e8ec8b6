"""Settings of the server: its address, its limits and its judge."""

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
    """The server cannot run with these settings."""


@dataclass(frozen=True)
class Bounds:
    """How much work one worker process accepts, and how long it may take."""

    at_once: int = 1024  # concurrent scoring requests; more are refused with 429
    # Bytes of one request. All requests under way together may have eight times as many.
    max_bytes: int = 16 << 20
    max_batch: int = 1024  # rollouts in one request
    # How long one rollout may take to score before it counts as unscored. A check that never waits
    # cannot be stopped.
    item_seconds: float = 60.0
    body_seconds: float = 30.0  # how long a client may take to send a request
    drain_seconds: float = 30.0  # how long requests may go on after the server was told to stop

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name.endswith("_seconds"):
                if not 0 < value < float("inf"):
                    raise SettingsError(f"{name} is {value}: give a number of seconds above 0")
            elif not value >= 1:
                raise SettingsError(f"{name} is {value}: give 1 or more")


@dataclass(frozen=True)
class JudgeSettings:
    """What answers the judged criteria of a server, and how it is asked.

    The settings are sent to worker processes, so a grader or a function must come from a module.
    """

    # A grader, a model, or the name of one; None is the judge of the rubric, or else the default.
    judge: "graders.JudgeSource | None" = None
    # What kind of grader asks the model.
    grader: Literal["per-criterion", "one-shot", "holistic"] = "per-criterion"
    guard: bool = False  # ask first whether a text contains a prompt injection
    cache: str | None = None  # the folder of the verdict cache; None keeps no verdicts
    budget: float | None = None  # dollars that all workers together may spend; None means no limit
    # The price of a model that is given by its name, if it is not known or is another one.
    price: "models.Price | None" = None
    # Requests that all workers together may send to endpoints; None means no limit.
    max_calls: int | None = None
    limits: "models.Limits | None" = None  # of the model's endpoint; None for the default limits
    # The parts of a rollout that the judge reads; they replace those that a rubric names. If empty,
    # the rubric decides.
    shows: tuple[str, ...] = ()
    # Whether judges and text checks read reasoning; None if the rubric decides.
    thinking: Thinking | None = None
    parser: Parser | None = None  # what checks read with; None if the rubric decides
    # Tokens that the model takes in one call; None uses what is known about the model. A longer
    # text is read in pieces.
    window: int | None = None
    # A folder whose files the judge may read before it answers; None gives it none.
    workspace: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.judge, str):
            graders.grader_of(self.judge)  # raises if it cannot judge
        if not isinstance(self.judge, graders.Grader):
            return
        for name in ("grader", "cache", "price", "limits", "window", "workspace"):
            default = type(self).__dataclass_fields__[name].default
            if getattr(self, name) != default:
                raise SettingsError(
                    f"judge is the grader {self.judge.title}, which has its own {name}: "
                    f"leave {name} out, or give the name of a model"
                )

    def build_grader(self, model: "models.Model") -> "graders.Grader":
        """Return the grader of this kind that asks a model, behind a guard if requested."""
        if self.workspace:
            grader = graders.ToolJudge(
                [tools.Workspace(self.workspace)], model=model, window=self.window
            )
        elif self.grader == "per-criterion":
            grader = graders.PerCriterionGrader(model=model, window=self.window)
        elif self.grader == "one-shot":
            grader = graders.PerCriterionOneShotGrader(model=model, window=self.window)
        else:
            grader = graders.RubricAsJudgeGrader(model=model, window=self.window)
        if self.guard:
            return graders.Guarded(grader)
        return grader


@dataclass(frozen=True)
class Settings:
    """Where the server listens, and what it allows.

    >>> Settings(port=9000).url
    'http://127.0.0.1:9000'
    """

    host: str = "127.0.0.1"
    port: int = 8000  # 0 takes any free port
    workers: int = 1
    # What a trainer gets that takes only numbers, for a rollout without a score: `raise` answers
    # with an error, `zero` with 0, `group_mean` with the mean of the scored rollouts of the same
    # prompt in the same request, `drop` with null (for NeMo-Gym, a row marked as failed).
    unscored: Policy = "raise"
    # The key that every request needs, except those for health and readiness. May be empty only if
    # the server listens on loopback.
    key: str = field(default="", repr=False)
    # Host names that requests may use, besides the server's address and those of this machine. Host
    # names are checked if any are listed here, and if there is no key: a web page in a browser
    # could otherwise send requests under a host name of its own.
    allow_hosts: tuple[str, ...] = ()
    bounds: Bounds = Bounds()
    # A file for the signs of reward hacking, one line of JSON per 256 rollouts of a worker; None
    # looks for none.
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
        if self.monitor is not None:
            _check_monitor_file(Path(self.monitor))
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise SettingsError(
                "the key contains spaces or characters that no header can hold: make a new one"
            )
        if not self.key and not is_loopback(self.host):
            raise SettingsError(
                f"on {self.host} others can reach the server, and no key is set: "
                f"set {KEY}, name a key file, or listen on 127.0.0.1"
            )

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def _check_monitor_file(path: Path) -> None:
    """Raise SettingsError if the signs of reward hacking could not be written into a file."""
    if path.is_dir() or not path.parent.is_dir():
        raise SettingsError(
            f"monitor is {format_value(str(path))}: name a file in a folder that exists"
        )


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and for addresses that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_key(file: str | Path | None) -> str:
    """Return the key of the server: from a file, or from the environment; empty without either."""
    if file is None:
        return os.environ.get(KEY, "").strip()
    key = Path(file).read_text(encoding="utf-8").strip()
    if not key:
        raise SettingsError(f"the key file {file} is empty: put one line with the key into it")
    return key
