"""Labels that commands are given: which run they are about, and which of them are taken."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import bundled, files
from assay.cli.values import pair

if TYPE_CHECKING:
    from assay.trust import Label


@dataclass(frozen=True)
class Labelling:
    """A run, and labels about it."""

    run: str
    labels_file: str | None
    """None for those that were given in the page of the run."""
    mapping: tuple[tuple[str, str], ...]
    skip_unknown: bool
    any_wording: bool

    def labels(self) -> "list[Label]":
        """The labels, read."""
        from assay.trust import LABELS, read_labels

        source = Path(self.run) / LABELS if self.labels_file is None else self.labels_file
        if self.labels_file is None and not Path(source).exists():
            raise click.UsageError(
                f"{self.run} has no {LABELS}: name a file of labels, or label in the page of the run"
            )
        return read_labels(source, mapping=dict(self.mapping) or None)


label_options = bundled(
    "labelling",
    Labelling,
    click.argument("run", type=click.Path(exists=True, file_okay=False)),
    click.argument("labels_file", metavar="[LABELS]", required=False, shell_complete=files),
    click.option(
        "--map", "mapping", type=pair, multiple=True, metavar="OURS=THEIRS",
        help="What a column is called there: verdict=grade. May be given again.",
    ),
    click.option(
        "--skip-unknown", is_flag=True,
        help="Leave out labels about examples, criteria and verdicts that the run does not have.",
    ),
    click.option(
        "--any-wording", is_flag=True,
        help="Take labels that were made for another wording of their criterion too.",
    ),
)  # fmt: skip
