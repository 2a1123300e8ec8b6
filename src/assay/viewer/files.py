"""The files of the page: one HTML, one CSS, scripts in the order of `scripts.txt`, nothing to build."""

from functools import cache
from importlib.resources import files
from typing import Final

KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

BUNDLE: Final = "page.js"
"""The name under which all scripts are had as one."""


@cache
def page_file(name: str) -> str | None:
    """A file of the page by its name; None when there is none, or it is no part of the page."""
    kind = name[name.rfind(".") :]
    if kind not in KINDS or ".." in name.split("/") or name.startswith("/"):
        return None
    if name == BUNDLE:
        # Otherwise forty small files would be asked for, each in its own request.
        return "\n".join(page_file(script) or "" for script in scripts())
    found = files("assay.viewer").joinpath("page", *name.split("/"))
    return found.read_text(encoding="utf-8") if found.is_file() else None


@cache
def scripts() -> tuple[str, ...]:
    """The scripts, in the order in which they build on each other."""
    listed = files("assay.viewer").joinpath("page", "scripts.txt").read_text(encoding="utf-8")
    return tuple(line for line in listed.split() if line)
