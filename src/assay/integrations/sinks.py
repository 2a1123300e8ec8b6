"""Sinks take what a monitor sees: functions of the number of a step and its values, or objects with such a method `log`."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from assay.redaction import logger_of
from assay.wording import described

logger = logger_of("assay")

Values: TypeAlias = Mapping[str, float]
Sink: TypeAlias = Callable[[int, Values], Any] | Any  # a function, or an object with `log(step, values)`


def write(sinks: Sequence[Sink], step: int, values: Values) -> None:
    """Write the values of a step everywhere. A sink that fails is logged, since training must not end with it."""
    for sink in sinks:
        try:
            getattr(sink, "log", sink)(step, values)
        except Exception as error:  # noqa: BLE001 - a tracker may fail in any way
            logger.warning("%r did not take the values of step %d: %s", sink, step, described(error))


def to_jsonl(path: str | Path, source: str = "") -> Sink:
    """One line of JSON a step at the end of a file; several processes may write to it, and `source` tells them apart."""
    return partial(_line, Path(path), {"source": source} if source else {})


def _line(path: Path, about: Mapping[str, str], step: int, values: Values) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step, **about, **values}) + "\n")


def to_tracker(tracker: Any) -> Sink:
    """A run of W&B (`wandb.init()`), a `SummaryWriter` of TensorBoard, or the module `mlflow`, whose active run is written to."""
    return partial(_track, tracker)


def _track(tracker: Any, step: int, values: Values) -> None:
    named = {f"assay/{name}": value for name, value in values.items()}
    if hasattr(tracker, "add_scalar"):
        for name, value in named.items():
            tracker.add_scalar(name, value, step)
    elif hasattr(tracker, "log_metrics"):
        tracker.log_metrics(named, step=step)
    else:  # without W&B's own `step`, which must never fall behind the trainer's
        tracker.log({"assay/step": step, **named})
