"""Take docs/images/page-overview.png, page-table.png and page-rollout.png anew. `make pictures` runs it.

Writes the sample runs, serves them, and looks at them with the Chromium that the tests use.
"""

import asyncio
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sample
import uvicorn
from playwright.sync_api import Page, sync_playwright

from assay.viewer.page_server import make_page_app
from assay.viewer.viewed_runs import ViewedRuns

DOCS = Path(__file__).parents[2] / "docs" / "images"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
WINDOW = {"width": 1360, "height": 900}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a page of both sample runs."""
    for name, luck in sample.RUNS.items():
        asyncio.run(sample.write(folder / name, luck))
    listening = socket.create_server(("127.0.0.1", 0))
    viewed = ViewedRuns([folder / name for name in sample.RUNS])
    server = uvicorn.Server(uvicorn.Config(make_page_app(viewed), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/#/run/{next(iter(viewed.runs))}"
    server.should_exit = True
    thread.join()
    listening.close()


def take(page: Page, address: str, sign: str, name: str, *keys: str) -> None:
    """Open a view, press some keys, and keep what is seen."""
    page.goto(address)
    page.wait_for_selector(sign)
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    page.screenshot(path=DOCS / name)


if __name__ == "__main__":
    chromium = os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as run:  # noqa: SIM117
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            light, dark = (
                browser.new_page(viewport=WINDOW, color_scheme=c) for c in ("light", "dark")
            )
            take(light, run, ".tiles", "page-overview.png")
            take(
                light, f"{run}/rows?q=-task:facts", ".rows tbody a", "page-table.png", "j", "j", "j"
            )
            take(dark, f"{run}/row/2", ".rollout", "page-rollout.png")
            browser.close()
