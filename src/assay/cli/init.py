"""`assay init [FOLDER]`: a rubric and rollouts to begin with."""

from pathlib import Path

import click

from assay import cli


@click.command("init", cls=cli.Command)
@click.argument("folder", default=".", type=click.Path(file_okay=False))
def command(folder: str) -> None:
    """Write a commented rubric.yaml, and a rollouts.jsonl to score with it.

    They go into FOLDER, which is made; by default here. Nothing is overwritten.
    """
    place = Path(folder)
    files = sorted(Path(__file__).with_name("starter").iterdir(), reverse=True)
    there = [place / file.name for file in files if (place / file.name).exists()]
    if there:
        listed = " and ".join(map(str, there))
        raise click.UsageError(
            f"{listed} would be overwritten: move what is there, or name another folder"
        )
    place.mkdir(parents=True, exist_ok=True)
    for file in files:
        (place / file.name).write_bytes(file.read_bytes())
        print(f"wrote {place / file.name}")
    where = "" if place.resolve() == Path.cwd() else f"cd {folder} && "
    print(f"next: {where}assay score rollouts.jsonl -r rubric.yaml")
