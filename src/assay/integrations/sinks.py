"""Sinks take what a monitor sees: a function of the step and its values, or an object with such a method `log`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from assay.redaction import logger_of
from assay.wording import described

logger = logger_of("assay")

PREFIX = "assay"  # before the name of a value, where a tracker has values of others too


class ValueSink(Protocol):
    """A place to write numbers to."""

    def log(self, step: int, values: Mapping[str, float]) -> None: ...


Sink: TypeAlias = ValueSink | Callable[[int, Mapping[str, float]], None]


def write(sinks: Sequence[Sink], step: int, values: Mapping[str, float]) -> None:
    """Write the values of a step everywhere. A sink that fails is logged, since training must not end with it."""
    for sink in sinks:
        try:
            take: Any = getattr(sink, "log", sink)
            take(step, values)
        except Exception as error:  # noqa: BLE001 - a tracker may fail in any way
            logger.warning("%s did not take the values of step %d: %s", type(sink).__name__, step, described(error))


@dataclass(frozen=True)
class JsonlSink:
    """One line of JSON a step in a file; several processes may write to one, and `source` tells them apart."""

    path: str | Path
    source: str = ""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        line = {"step": step, **({"source": self.source} if self.source else {}), **values}
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class WandbSink:
    """A run of W&B: `WandbSink(wandb.init(...))`."""

    run: Any

    def log(self, step: int, values: Mapping[str, float]) -> None:
        # Without W&B's own `step`, which must never fall behind the trainer's.
        self.run.log({f"{PREFIX}/step": step, **{f"{PREFIX}/{name}": value for name, value in values.items()}})


@dataclass(frozen=True)
class TensorBoardSink:
    """A writer of TensorBoard: `TensorBoardSink(SummaryWriter("runs"))`."""

    writer: Any

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(f"{PREFIX}/{name}", value, step)


@dataclass(frozen=True)
class MlflowSink:
    """The active run of MLflow: `MlflowSink(mlflow)`; a client with a run's `log_metrics` does as well."""

    mlflow: Any

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.mlflow.log_metrics({f"{PREFIX}/{name}": value for name, value in values.items()}, step=step)
