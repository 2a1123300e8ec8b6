"""The files of the page: one HTML file, one style sheet, and scripts in the order of `scripts.txt`.

There is no build step. The page is served by `page_server`, or written as one file by `page_export`.
"""

from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Final

MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
SCRIPT: Final = "page.js"  # the name of all scripts joined
# What the page may do whether it is served or opened from disk.
COMMON_POLICY: Final = (
    "media-src data:; object-src blob:; frame-src blob:; base-uri 'none'; form-action 'none'"
)


@cache
def read_page_file(name: str) -> str | None:
    """Return a file of the page; None if the page has no file of this name."""
    path = PurePosixPath(name)
    is_outside = path.is_absolute() or ".." in path.parts
    if is_outside or path.suffix not in MEDIA_TYPES:
        return None
    folder = files("assay.viewer").joinpath("page")
    if name == SCRIPT:
        # One file, since a browser would send a request for each of forty small ones.
        scripts = folder.joinpath("scripts.txt").read_text(encoding="utf-8").split()
        return "\n".join(read_page_file(script) or "" for script in scripts)
    file = folder.joinpath(*path.parts)
    return file.read_text(encoding="utf-8") if file.is_file() else None
