"""Measure the page of a large run in a real Chromium: `python benchmarks/page.py`.

A run of 50,000 rollouts × 6 criteria is written, and looked at as `assay view` serves it, with and without
an index from before, and as the one file of `assay report`. Writes what it finds into benchmarks/RESULTS.md.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import Limit, Row, add_options, as_table, plain_table, save_results, say
from playwright.sync_api import Page, sync_playwright

from assay import Criterion, Rubric
from assay.runs import score_rows

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
FILTERS = ("criterion:c3 verdict:UNMET score<0.5", "score>0.9 -task:sums", '"number 17 "')

ANSWERED = """(text) => new Promise((done) => {
    const total = document.querySelector(".total"), input = document.querySelector("#filter");
    const start = performance.now();
    new MutationObserver((_, self) => { self.disconnect(); requestAnimationFrame(() => done(performance.now() - start)); })
        .observe(total, {childList: true, characterData: true, subtree: true});
    input.value = text;
    input.dispatchEvent(new Event("input"));
})"""
"""Milliseconds from a key in the filter to the rows, the wait of the box for the next key included."""

JUMPED = """(share) => new Promise((done) => {
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
"""Milliseconds from a jump of the scroll bar until every row in sight is there."""

SCROLLED = """() => new Promise((done) => {
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
"""The lengths of 180 frames while the rows run past, sorted."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="page.py", description=(__doc__ or "").strip())
    add_options(parser, ["view", "report"])
    options = parser.parse_args(arguments)
    count = 2_000 if options.quick else 50_000
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        say(f"writing {count:,} rollouts")
        # Before the browser is there, which keeps a loop of its own in this thread.
        asyncio.run(score_rows(rubric(), rows(count), folder=run))
        with chromium() as browse:
            if not options.only or "view" in options.only:
                found += viewed(run, Path(folder) / "cache", browse)
            if not options.only or "report" in options.only:
                found += reported(run, Path(folder) / "page.html", browse)
    table = as_table(found)
    print(plain_table(table))
    save_results("the page of a run", [table], [], options, peers=())
    return 0


def rubric() -> Rubric:
    """Six criteria, each met by a share of the answers."""

    def made(place: int):
        return lambda completion: hash((place, len(completion), completion[-9:])) % 7 > place

    return Rubric(
        [
            Criterion(check=made(n), name=f"c{n}", weight=n + 1, tags=(f"t{n % 2}",))
            for n in range(6)
        ]
    )


def rows(count: int) -> Iterator[dict[str, str]]:
    """Answers of about a thousand characters."""
    draw = random.Random(5)
    words = "so that the sum of both sides of it is what we had before we began with this"
    for number in range(count):
        said = " ".join(draw.choices(words.split(), k=200))
        task = ("sums", "letters", "code")[number % 3]
        yield {
            "prompt": f"Question number {number} ?",
            "completion": f"{said} {draw.random()}",
            "task": task,
        }


def viewed(run: Path, cache: Path, browse) -> Iterator[Row]:
    """`assay view`, first without an index and then with the one that this has left."""
    for state in ("no index yet", "index from before"):
        say(f"assay view, {state}")
        started = time.perf_counter()
        with served(run, cache) as address:
            listening = time.perf_counter() - started
            with browse() as page:
                opened = overview_after(page, address)
                yield seconds(f"assay view, {state}: command to address", listening)
                yield seconds(f"assay view, {state}: address to overview", opened, 2.0)
                again = overview_after(page, f"{address}?again")
                yield seconds(f"assay view, {state}: overview once more", again, 2.0)
                yield from looked(page, f"assay view, {state}")


def reported(run: Path, path: Path, browse) -> Iterator[Row]:
    say("assay report")
    started = time.perf_counter()
    command = [sys.executable, "-m", "assay", "report", str(run), "-o", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    yield seconds("assay report, writing", time.perf_counter() - started)
    yield Row("assay report, size of the file", path.stat().st_size / 1e6, None, "MB")
    with browse() as page:
        yield seconds("assay report: file to overview", overview_after(page, path.as_uri()), 2.0)
        yield from looked(page, "assay report")


def looked(page: Page, name: str) -> Iterator[Row]:
    """Filters, jumps and scrolling in the table."""
    page.evaluate(
        "() => { location.hash = document.querySelector('.tabs a + a').getAttribute('href'); }"
    )
    page.wait_for_selector("table.rows tbody a")
    for text in FILTERS:
        page.evaluate(ANSWERED, "")
        yield milliseconds(f"{name}: filter {text}", page.evaluate(ANSWERED, text))
    page.evaluate(ANSWERED, "")
    jumps = sorted(
        page.evaluate(JUMPED, share)
        for share in (0.9, 0.1, 0.5, 0.77, 0.31, 0.99, 0.02, 0.64, 0.44)
    )
    yield milliseconds(f"{name}: jump of the scroll bar, median of 9", jumps[4])
    page.evaluate(JUMPED, 0.2)
    frames = page.evaluate(SCROLLED)
    yield milliseconds(f"{name}: frame while scrolling, median", frames[len(frames) // 2])
    yield milliseconds(f"{name}: frame while scrolling, 95 of 100", frames[len(frames) * 95 // 100])


def overview_after(page: Page, address: str) -> float:
    """Seconds from asking for the page until its overview is there."""
    started = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(".tiles", timeout=120_000)
    return time.perf_counter() - started


@contextmanager
def served(run: Path, cache: Path) -> Iterator[str]:
    """The address of the page of a run, which a process of its own serves."""
    command = [sys.executable, "-m", "assay", "view", str(run)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield next(
                word for line in process.stdout for word in line.split() if word.startswith("http")
            )
        finally:
            process.terminate()


@contextmanager
def chromium():
    """A function that opens a fresh window."""
    path = os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise SystemExit(
            "there is no Chromium here: install the chromium package, or name one in ASSAY_CHROMIUM"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))

        @contextmanager
        def browse() -> Iterator[Page]:
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            context.set_default_timeout(120_000)
            yield context.new_page()
            context.close()

        yield browse
        browser.close()


def seconds(name: str, figure: float, most: float | None = None) -> Row:
    return Row(
        name, figure, None, "s", target=None if most is None else Limit(most, "at most", "s")
    )


def milliseconds(name: str, figure: float) -> Row:
    return Row(name, figure, None, "ms")


if __name__ == "__main__":
    sys.exit(main())
