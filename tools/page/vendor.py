"""Copy the two libraries of the run page into the package, each with its licence. `make vendor` runs it.

The versions stand in package.json. npm works in a folder that is thrown away, so that nothing of it stays.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
VENDOR = HERE.parents[1] / "src" / "assay" / "viewer" / "page" / "vendor"
FILES = {"uplot": ("dist/uPlot.iife.min.js",), "katex": ("dist/katex.min.js",)}


def fetch(folder: Path) -> Path:
    """Install what package.json names, and give the folder that it is in."""
    shutil.copy(HERE / "package.json", folder)
    quiet = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
    subprocess.run(["npm", "install", *quiet], cwd=folder, check=True)
    return folder / "node_modules"


def copy(modules: Path, package: str, file: str) -> None:
    """Copy one file with the licence at its head: in a report it stands in one script with the rest."""
    licence = (modules / package / "LICENSE").read_text(encoding="utf-8").strip()
    text = (modules / package / file).read_text(encoding="utf-8").strip()
    name = Path(file).name
    (VENDOR / name).write_text(f"/*! {package}\n\n{licence}\n*/\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    VENDOR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        modules = fetch(Path(folder))
        for package, files in FILES.items():
            shutil.copy(modules / package / "LICENSE", VENDOR / f"{package}.LICENSE.txt")
            for file in files:
                copy(modules, package, file)
