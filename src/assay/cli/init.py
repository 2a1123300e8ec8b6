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
    starter_folder = Path(__file__).with_name("starter")
    starter_files = sorted(starter_folder.iterdir(), reverse=True)  # the rubric first
    new_files = [target / file.name for file in starter_files]
    existing = [path for path in new_files if path.exists()]
    if existing:
        names = " and ".join(str(path) for path in existing)
        raise click.UsageError(f"{names} would be overwritten: move it, or name another folder")
    target.mkdir(parents=True, exist_ok=True)
    for starter_file, new_file in zip(starter_files, new_files, strict=True):
        new_file.write_bytes(starter_file.read_bytes())
        print(f"wrote {new_file}")
    next_command = "assay score rollouts.jsonl -r rubric.yaml"
    if target.resolve() != Path.cwd():
        next_command = f"cd {folder} && {next_command}"
    print(f"next: {next_command}")
