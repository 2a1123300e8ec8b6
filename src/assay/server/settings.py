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

    at_once: int = 1024  # scoring requests in progress; further ones are refused with status 429
    # Bytes of one request. All requests in progress together may have eight times as many.
    max_bytes: int = 16 << 20
    max_batch: int = 1024  # rollouts in one request
    # How long one rollout may take to score before it counts as unscored. A check that never waits
    # cannot be stopped.
    item_seconds: float = 60.0
    body_seconds: float = 30.0  # how long a client may take to send a request
    # How long requests in progress may take to finish after the server was told to stop.
    drain_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name.endswith("_seconds"):
                if not 0 < value < float("inf"):
                    raise SettingsError(f"{name} is {value}: give a number of seconds above 0")
            elif not value >= 1:
                raise SettingsError(f"{name} is {value}: give 1 or more")


@dataclass(frozen=True)
class JudgeSettings:
    """The judge of a server, and how it is asked.

    The settings are sent to worker processes, so a grader or a function must come from a module.
    """

    # A grader, a model, or the name of a model. If it is None, the judge of the rubric is used, or
    # the default judge if the rubric has none.
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
    # What the judge reads of a rollout, in place of what the rubric names. If empty, the rubric
    # decides.
    shows: tuple[str, ...] = ()
    # Whether judges and text checks read reasoning; None if the rubric decides.
    thinking: Thinking | None = None
    parser: Parser | None = None  # what checks parse completions with; None if the rubric decides
    # Tokens that the model takes in one call; None uses what is known about the model. A longer
    # text is read in pieces.
    window: int | None = None
    # A folder whose files the judge may read before it answers; None gives it none.
    workspace: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.judge, str):  # a name is looked up when a rubric needs the judge
            graders.grader_of(self.judge)  # raises if it cannot judge
        if not isinstance(self.judge, graders.Grader):
            return
        # These settings say how to make a grader from a model. A grader that is already made would
        # ignore them.
        for name in ("grader", "cache", "price", "limits", "window", "workspace"):
            default = type(self).__dataclass_fields__[name].default
            if getattr(self, name) != default:
                raise SettingsError(
                    f"judge is the grader {self.judge.title}, which has its own {name}: "
                    f"leave {name} out, or give the name of a model"
                )

    def build_grader(self, model: "models.Model") -> "graders.Grader":
        """Return a grader that asks this model, as the settings say.

        With a workspace, the judge can call tools that read its files.
        """
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
    """The settings of a server, except for its rubric and its judge.

    >>> Settings(port=9000).url
    'http://127.0.0.1:9000'
    """

    host: str = "127.0.0.1"
    port: int = 8000  # 0 takes any free port
    workers: int = 1
    # What the server sends for a rollout without a score to a trainer that takes only numbers:
    # `raise` sends an error, `zero` sends 0, `group_mean` the mean of the scored rollouts of the
    # same prompt in the same request, `drop` null (to NeMo-Gym, a row marked as failed).
    unscored: Policy = "raise"
    # The key that every request needs, except those for health and readiness. May be empty only if
    # the server listens on loopback.
    key: str = field(default="", repr=False)
    # Host names that requests may use, besides the server's address and those of this machine. Host
    # names are checked if any are listed here, or if there is no key: without a check, a web page
    # could send requests to the server by a host name of its own.
    allow_hosts: tuple[str, ...] = ()
    bounds: Bounds = Bounds()
    # A file for signs of reward hacking: each worker adds a line of JSON for every 256 rollouts. If
    # it is None, the server does not look for such signs.
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
        """The address of the server, with an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def _check_monitor_file(path: Path) -> None:
    """Raise SettingsError if the file of the monitor cannot be created at this path."""
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
    """Return the key of the server from a file; without a file, from the environment.

    It is empty if the environment has none. Raise SettingsError for an empty file.
    """
    if file is None:
        return os.environ.get(KEY, "").strip()
    key = Path(file).read_text(encoding="utf-8").strip()
    if not key:
        raise SettingsError(f"the key file {file} is empty: put one line with the key into it")
    return key
