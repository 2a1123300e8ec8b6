"""`assay init [FOLDER]`: write a rubric and rollouts to start with."""

from pathlib import Path

import click

from assay.cli.base_command import Command


@click.command("init", cls=Command, example="assay init sums")
@click.argument("folder", default=".", type=click.Path(file_okay=False))
def command(folder: str) -> None:
    """Write a commented rubric.yaml and an example rollouts.jsonl.

    They are saved in FOLDER (by default the current folder), which is created if necessary. Existing
    files are not overwritten.
    """
    target = Path(folder)
    starter_files = sorted(Path(__file__).with_name("starter").iterdir(), reverse=True)
    existing = [target / file.name for file in starter_files if (target / file.name).exists()]
    if existing:
        names = " and ".join(str(path) for path in existing)
        raise click.UsageError(f"{names} would be overwritten: move it, or name another folder")
    target.mkdir(parents=True, exist_ok=True)
    for file in starter_files:
        (target / file.name).write_bytes(file.read_bytes())
        print(f"wrote {target / file.name}")
    next_command = "assay score rollouts.jsonl -r rubric.yaml"
    if target.resolve() != Path.cwd():
        next_command = f"cd {folder} && {next_command}"
    print(f"next: {next_command}")
