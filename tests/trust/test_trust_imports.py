"""Statistics are an extra: what does not need it works without, and the rest says what to install."""

import subprocess
import sys

_BLOCKED = "import sys; sys.modules['numpy'] = None\n"


def ran(code):
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_package_loads_neither_numpy_nor_scipy():
    """Names load when they are used."""
    code = "import sys, assay.trust\nprint({'numpy', 'scipy', 'pydantic'} & set(sys.modules))"
    assert ran(code) == "set()"


def test_labels_are_read_without_the_extra():
    """A page can write and read them."""
    row = {"example": 1, "criterion": "polite", "verdict": "MET"}
    code = f"{_BLOCKED}from assay.trust import read_labels\nprint(read_labels([{row}])[0].key)"
    assert ran(code) == "('1', 0, 'polite', 'human')"


def test_statistics_without_the_extra_say_what_to_install():
    """By the name of the extra."""
    code = (
        f"{_BLOCKED}from assay import MissingExtraError\n"
        "try:\n    from assay.trust import agree\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    assert ran(code).endswith("[cli]'")
