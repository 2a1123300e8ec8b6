"""Draw docs/images/demo.svg, the picture on the page of concepts, from what `make demo` prints. `make picture` runs it."""

import io
import os
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples"))

import demo  # noqa: E402

if __name__ == "__main__":
    console = Console(width=132, record=True, file=io.StringIO())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        demo.show(console, Path("demo-run"))
    picture = console.export_svg(title="make demo", unique_id="demo")
    # The exporter names web fonts by address; the reader's own monospace font will do.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    picture = picture.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    (HERE.parent / "docs" / "images" / "demo.svg").write_text(picture, encoding="utf-8")
