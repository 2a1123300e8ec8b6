"""Checks of the page's files that need no browser."""

import re
from itertools import product
from pathlib import Path

import pytest

import assay.viewer
from assay.viewer.page_files import SCRIPT, read_page_file

PAGE = Path(assay.viewer.__file__).parent / "page"
SCRIPTS = (PAGE / "scripts.txt").read_text(encoding="utf-8").split()
OWN_SCRIPTS = [name for name in SCRIPTS if not name.startswith("vendor/")]
COLOURS = dict(
    re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\);", (PAGE / "style.css").read_text())
)


def test_every_script_is_listed_and_all_are_served_as_one():
    """The list gives the order in which they depend on each other."""
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<script defer src="([^"]+)"></script>', html) == [SCRIPT]
    bundle = read_page_file(SCRIPT)
    offsets = [bundle.index((PAGE / name).read_text(encoding="utf-8")) for name in SCRIPTS]
    assert offsets == sorted(offsets)
    assert sorted(OWN_SCRIPTS) == sorted(path.name for path in PAGE.glob("*.js"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_embedded_in_html(name):
    """Neither of these may occur in an embedded script."""
    text = (PAGE / name).read_text(encoding="utf-8")
    assert "</script" not in text.lower()
    assert "<!--" not in text


@pytest.mark.parametrize("name", OWN_SCRIPTS)
def test_scripts_never_create_markup_or_run_text(name):
    """They use only functions that cannot run what a model wrote; and files stay short enough to read."""
    text = (PAGE / name).read_text(encoding="utf-8")
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser|setHTML"
    assert re.findall(forbidden, text) == []
    assert len(text.splitlines()) < 300


def test_vendored_scripts_include_their_licence():
    for name, licence in (("uPlot.iife.min.js", "uplot"), ("katex.min.js", "katex")):
        text = (PAGE / "vendor" / f"{licence}.LICENSE.txt").read_text(encoding="utf-8").strip()
        assert text in (PAGE / "vendor" / name).read_text(encoding="utf-8")


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours as defined by WCAG 2."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[offset : offset + 2], 16) / 255 for offset in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


GROUNDS = ("ground", "surface", "raised")
PAIRS = [
    *product(("ink", "muted", "accent", "error"), GROUNDS),
    *((kind, f"{kind}-ground") for kind in ("good", "bad", "middle", "none", "error", "accent")),
    *(("ink", f"hue-{number}") for number in range(6)),
    ("surface", "error"),
    ("surface", "accent"),
]


@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_has_enough_contrast_with_its_background(text, ground):
    """At least 4.5, in light and dark mode."""
    for mode in (0, 1):
        assert contrast(COLOURS[text].split(", ")[mode], COLOURS[ground].split(", ")[mode]) >= 4.5
