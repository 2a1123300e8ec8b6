"""Take the pictures in docs/images/ anew. `make pictures` runs it.

The pictures of the page show two sample runs, and the picture of the terminal and `demo-page.png`
show the run of `assay demo`. Both are looked at with the Chromium that the tests use.
"""

import asyncio
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import sample
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.text import Text

from assay.viewer.page_server import make_page_app
from assay.viewer.viewed_runs import ViewedRuns

IMAGES = Path(__file__).parents[2] / "docs" / "images"
CHROMIUM_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
)
WINDOW = {"width": 1360, "height": 900}
TERMINAL_COLUMNS = 100


@contextmanager
def serve_samples(folder: Path) -> Iterator[str]:
    """Serve the page of both sample runs; yield the address of the first."""
    listening = socket.create_server(("127.0.0.1", 0))
    viewed = ViewedRuns([folder / name for name in sample.RUNS])
    server = uvicorn.Server(uvicorn.Config(make_page_app(viewed), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/#/run/{next(iter(viewed.runs))}"
    server.should_exit = True
    thread.join()
    listening.close()


@contextmanager
def run_demo(folder: Path) -> Iterator[tuple[list[str], str]]:
    """Run `assay demo`; yield what it printed, and the address of its page."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(TERMINAL_COLUMNS)}
    command = [sys.executable, "-u", "-m", "assay", "demo", "--no-open"]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines: list[str] = []
    address = None
    for line in process.stdout:
        address = re.match(r"http://127\.0\.0\.1:\d+/", line)
        if address:
            break
        lines.append(line.rstrip("\n"))
    assert address is not None, "assay demo printed no address"
    yield lines, address[0]
    process.send_signal(signal.SIGINT)
    process.wait()


def draw_terminal(lines: list[str], name: str) -> None:
    """Draw what a command printed, as a terminal shows it."""
    console = Console(width=TERMINAL_COLUMNS, record=True, file=io.StringIO())
    for line in lines:
        console.print(Text.from_ansi(line))
    picture = console.export_svg(title="assay demo", unique_id=name)
    # The fonts would be loaded from another host; those of the reader will do.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    picture = picture.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    (IMAGES / f"{name}.svg").write_text(picture, encoding="utf-8")


def take(page: Page, address: str, sign: str, name: str, *keys: str) -> None:
    """Open a view, press keys, and take a picture of it."""
    page.goto(address)
    page.wait_for_selector(sign)
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    page.screenshot(path=IMAGES / name)


def take_pictures_of_samples(browser: Browser, run: str) -> None:
    light = browser.new_page(viewport=WINDOW, color_scheme="light")
    dark = browser.new_page(viewport=WINDOW, color_scheme="dark")
    take(light, run, ".tiles", "page-overview.png")
    rows = f"{run}/rows?q=-task:facts"
    take(light, rows, ".rows tbody a", "page-table.png", "j", "j", "j")
    take(dark, f"{run}/row/2", ".rollout", "page-rollout.png")
    light.goto(f"{run}/row/2")
    light.locator(".overrule").nth(1).click()
    light.wait_for_timeout(300)
    light.screenshot(path=IMAGES / "page-label.png")
    light.goto(run)
    light.get_by_role("link", name="Compare").click()
    light.wait_for_selector(".flips")
    light.screenshot(path=IMAGES / "page-compare.png")


def main() -> None:
    chromium = os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for name, luck in sample.RUNS.items():
            asyncio.run(sample.write(Path(folder) / name, luck))
        # From here on, playwright has an event loop running in this thread.
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_OPTIONS))
        with run_demo(Path(folder)) as (lines, address):
            draw_terminal(lines, "demo-terminal")
            page = browser.new_page(viewport=WINDOW, color_scheme="light")
            take(page, address, ".tiles", "demo-page.png")
        with serve_samples(Path(folder)) as run:
            take_pictures_of_samples(browser, run)
        browser.close()


if __name__ == "__main__":
    main()
