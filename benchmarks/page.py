"""Measure the page of a large run in a real Chromium: `python benchmarks/page.py`.

It writes a run of 50,000 rollouts × 6 criteria, and opens it as `assay view` serves it, with and without an
index, and as the file of `assay report`. Writes the results into benchmarks/RESULTS.md.
"""

import argparse
import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from harness import Limit, Row, add_options, as_table, plain_table, save_results, say
from playwright.sync_api import Page, sync_playwright

from assay import Criterion, Rubric
from assay.runs import score_rows

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
FILTERS = ("criterion:c3 verdict:UNMET score<0.5", "score>0.9 -task:sums", '"number 17 "')

# Returns the milliseconds from typing a filter until its rows are shown, including the delay of the filter box.
FILTER_SCRIPT = """(text) => new Promise((done) => {
    const total = document.querySelector(".total"), input = document.querySelector("#filter");
    const start = performance.now();
    new MutationObserver((_, self) => { self.disconnect(); requestAnimationFrame(() => done(performance.now() - start)); })
        .observe(total, {childList: true, characterData: true, subtree: true});
    input.value = text;
    input.dispatchEvent(new Event("input"));
})"""

# Returns the milliseconds from a jump of the scroll bar until all visible rows are shown.
JUMP_SCRIPT = """(share) => new Promise((done) => {
    const scroller = document.querySelector(".scroller");
    const start = performance.now();
    scroller.scrollTop = scroller.scrollHeight * share;
    const look = () => {
        const rows = [...document.querySelectorAll("table.rows tbody tr:not(.spacer)")];
        const box = scroller.getBoundingClientRect();
        const seen = rows.filter((row) => row.getBoundingClientRect().bottom > box.top + 60 && row.getBoundingClientRect().top < box.bottom);
        if (seen.length > 5 && seen.every((row) => row.querySelector("a"))) done(performance.now() - start);
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""

# Returns the durations of 180 frames while the table scrolls, sorted.
SCROLL_SCRIPT = """() => new Promise((done) => {
    const scroller = document.querySelector(".scroller");
    const frames = [];
    let last = performance.now();
    const step = (now) => {
        frames.push(now - last);
        last = now;
        scroller.scrollTop += 120;
        if (frames.length < 180) requestAnimationFrame(step);
        else done(frames.slice(1).sort((a, b) => a - b));
    };
    requestAnimationFrame(step);
})"""

# Opens a page in a new window.
Browse = Callable[[], AbstractContextManager[Page]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="page.py", description=(__doc__ or "").strip())
    add_options(parser, ["view", "report"])
    options = parser.parse_args(arguments)
    count = 2_000 if options.quick else 50_000
    results: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        say(f"writing {count:,} rollouts")
        # Before the browser starts, since it runs an event loop of its own in this thread.
        asyncio.run(score_rows(rubric(), rows(count), folder=run))
        with chromium() as browse:
            if not options.only or "view" in options.only:
                results += measure_view(run, Path(folder) / "cache", browse)
            if not options.only or "report" in options.only:
                results += measure_report(run, Path(folder) / "page.html", browse)
    table = as_table(results)
    print(plain_table(table))
    save_results("the page of a run", [table], [], options, peers=())
    return 0


def rubric() -> Rubric:
    """Return six criteria, each of which is met by a share of the answers."""

    def is_met(completion: str, number: int) -> bool:
        return hash((number, len(completion), completion[-9:])) % 7 > number

    criteria = [
        Criterion(
            check=partial(is_met, number=number),
            name=f"c{number}",
            weight=number + 1,
            tags=(f"t{number % 2}",),
        )
        for number in range(6)
    ]
    return Rubric(criteria)


def rows(count: int) -> Iterator[dict[str, str]]:
    """Yield rollouts of about a thousand characters."""
    rng = random.Random(5)
    words = "so that the sum of both sides of it is what we had before we began with this"
    for number in range(count):
        text = " ".join(rng.choices(words.split(), k=200))
        yield {
            "prompt": f"Question number {number} ?",
            "completion": f"{text} {rng.random()}",
            "task": ("sums", "letters", "code")[number % 3],
        }


def measure_view(run: Path, cache: Path, browse: Browse) -> Iterator[Row]:
    """Measure `assay view` without an index, and with the one that the first time leaves."""
    for state in ("no index yet", "index from before"):
        name = f"assay view, {state}"
        say(name)
        started = time.perf_counter()
        with served(run, cache) as address:
            yield seconds(f"{name}: command to address", time.perf_counter() - started)
            with browse() as page:
                opened = open_overview(page, address)
                yield seconds(f"{name}: address to overview", opened, 2.0)
                reopened = open_overview(page, f"{address}?again")
                yield seconds(f"{name}: overview once more", reopened, 2.0)
                yield from measure_table(page, name)


def measure_report(run: Path, path: Path, browse: Browse) -> Iterator[Row]:
    say("assay report")
    started = time.perf_counter()
    command = [sys.executable, "-m", "assay", "report", str(run), "-o", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    yield seconds("assay report, writing", time.perf_counter() - started)
    yield Row("assay report, size of the file", path.stat().st_size / 1e6, None, "MB")
    with browse() as page:
        yield seconds("assay report: file to overview", open_overview(page, path.as_uri()), 2.0)
        yield from measure_table(page, "assay report")


def measure_table(page: Page, name: str) -> Iterator[Row]:
    """Measure filters, jumps and scrolling in the table of rollouts."""
    page.evaluate(
        "() => { location.hash = document.querySelector('.tabs a + a').getAttribute('href'); }"
    )
    page.wait_for_selector("table.rows tbody a")
    for text in FILTERS:
        page.evaluate(FILTER_SCRIPT, "")
        yield milliseconds(f"{name}: filter {text}", page.evaluate(FILTER_SCRIPT, text))
    page.evaluate(FILTER_SCRIPT, "")
    shares = (0.9, 0.1, 0.5, 0.77, 0.31, 0.99, 0.02, 0.64, 0.44)
    jumps = [page.evaluate(JUMP_SCRIPT, share) for share in shares]
    yield milliseconds(f"{name}: jump of the scroll bar, median of 9", median(jumps))
    page.evaluate(JUMP_SCRIPT, 0.2)
    frames = page.evaluate(SCROLL_SCRIPT)
    yield milliseconds(f"{name}: frame while scrolling, median", frames[len(frames) // 2])
    yield milliseconds(f"{name}: frame while scrolling, 95 of 100", frames[len(frames) * 95 // 100])


def open_overview(page: Page, address: str) -> float:
    """Open a page, and return the seconds until its overview is shown."""
    started = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(".tiles", timeout=120_000)
    return time.perf_counter() - started


@contextmanager
def served(run: Path, cache: Path) -> Generator[str]:
    """Serve the page of a run in a process of its own; yield its address."""
    command = [sys.executable, "-m", "assay", "view", str(run)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield _read_address(process.stdout)
        finally:
            process.terminate()


def _read_address(lines: Iterable[str]) -> str:
    for line in lines:
        for word in line.split():
            if word.startswith("http"):
                return word
    raise SystemExit("assay view ended without an address")


@contextmanager
def chromium() -> Generator[Browse]:
    """Start a browser; yield a function that opens a new window."""
    path = os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise SystemExit(
            "there is no Chromium here: install the chromium package, or name one in ASSAY_CHROMIUM"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))

        @contextmanager
        def browse() -> Generator[Page]:
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            context.set_default_timeout(120_000)
            yield context.new_page()
            context.close()

        yield browse
        browser.close()


def seconds(name: str, figure: float, limit: float | None = None) -> Row:
    target = None
    if limit is not None:
        target = Limit(limit, "at most", "s")
    return Row(name, figure, None, "s", target=target)


def milliseconds(name: str, figure: float) -> Row:
    return Row(name, figure, None, "ms")


if __name__ == "__main__":
    sys.exit(main())
