"""Record what verifiers itself gives for every environment here, one JSON file each.

Run it where verifiers 0.1.14 is installed, beside `datasets`, `openai` and `aiohttp`, with `src` of this repository on
the path: `PYTHONPATH=src PYTHON tests/compat/environments/record.py [NAME ...]`. Games and questions are those of `packages/`.
"""

import asyncio
import json
import sys
from types import ModuleType

import verifiers
from harness import HERE, NAMES, PACKAGES, rows_of

VERSION = "0.1.14"


def main() -> None:
    sys.path.insert(0, str(PACKAGES))
    sys.modules["nltk"] = ModuleType(
        "nltk"
    )  # verifiers downloads lists of words by it, whatever the game
    sys.modules["nltk"].download = lambda *names, **options: True
    if verifiers.__version__ != VERSION or "assay" in verifiers.__file__:
        raise SystemExit(
            f"this is verifiers {verifiers.__version__} in {verifiers.__file__}: record with {VERSION}"
        )
    for name in sys.argv[1:] or NAMES:
        rows = asyncio.run(rows_of(name))
        text = json.dumps(rows, indent=1, ensure_ascii=False, sort_keys=True)
        (HERE / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        print(name, [row["reward"] for row in rows])


if __name__ == "__main__":
    main()
