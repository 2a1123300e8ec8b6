"""Runs to look at, and a real Chromium to look at them with."""

import asyncio
import os
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvicorn
from playwright.sync_api import expect, sync_playwright

from assay import Autograder, Criterion, CriterionReport, Rubric, Score
from assay.runs import Journal, Row, RunAbout, Spending, score_rows
from assay.viewer.page_server import make_page_app
from assay.viewer.viewed_runs import ViewedRuns

# A busy machine is slow, and that is no mistake of the page.
expect.set_options(timeout=20_000)

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_itemcollected(item):
    """A test that looks through a browser is slow."""
    if "browser" in getattr(item, "fixturenames", ()):
        item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that looks through a browser in the thread of the browser.

    Playwright keeps a loop running in the thread that it was started in; in the main thread it would be
    in the way of every async test.
    """
    if "browser" not in pyfuncitem.fixturenames:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    thread = pyfuncitem.funcargs["browser_thread"]
    thread.submit(pyfuncitem.obj, **arguments).result()
    return True


@pytest.fixture(scope="session")
def browser_thread():
    with ThreadPoolExecutor(1, "browser") as thread:
        yield thread


@pytest.fixture(scope="session")
def browser(browser_thread):
    path = os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip(
            "there is no Chromium here: install the chromium package, or name one in ASSAY_CHROMIUM"
        )
    playwright = browser_thread.submit(sync_playwright().start).result()
    launched = browser_thread.submit(
        playwright.chromium.launch, executable_path=path, args=FLAGS
    ).result()
    yield launched
    browser_thread.submit(launched.close).result()
    browser_thread.submit(playwright.stop).result()


@pytest.fixture
def context_options():
    """How the window is; a test may say otherwise by its own fixture of this name."""
    return {"viewport": {"width": 1280, "height": 800}}


@pytest.fixture
def page(browser, browser_thread, context_options):
    """A fresh window. Nothing in it may raise, open a dialog, or break the content policy."""
    troubles: list[str] = []

    def opened():
        context = browser.new_context(**context_options)
        context.set_default_timeout(30_000)
        made = context.new_page()
        made.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        made.on("dialog", lambda dialog: (troubles.append("a dialog"), dialog.dismiss()))
        made.on(
            "console", lambda said: troubles.append(said.text) if said.type == "error" else None
        )
        return made

    made = browser_thread.submit(opened).result()
    made.troubles = troubles
    yield made
    browser_thread.submit(made.context.close).result()
    assert troubles == []


class Judge(Autograder):
    """Two judges: the second is stricter, and both break down over the word `break`."""

    async def judge(self, to_grade, rubric, query=None):
        return [self.say(criterion, to_grade) for criterion in rubric]

    def say(self, criterion: Criterion, text: str) -> Score:
        if "break" in text:
            return Score.failed("TimeoutError: the judge did not answer within 60 s")
        if criterion.allow_na and "source" not in text:
            return Score.not_applicable("Nothing rests on a source.")
        lenient, strict = "please" in text or "Thank" in text, "please" in text
        quote = "could you please" if "please" in text else "as everybody knows"
        votes = [
            CriterionReport(
                name=name, value=float(said), verdict=criterion.choices[-1 if said else 0]
            )
            for name, said in (("lenient", lenient), ("strict", strict))
        ]
        apart = float(lenient != strict)
        verdict = criterion.choices[-1 if strict else 0]
        return Score(float(strict), f'It says "{quote}".', verdict, lines=votes, disagreement=apart)


def short(completion):
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return len(text) < 60


CRITERIA = [
    Criterion(name="polite", requirement="Is polite", weight=2, tags=("tone",)),
    Criterion(name="cites", requirement="Names a source", weight=1, allow_na=True, tags=("facts",)),
    Criterion(name="curt", requirement="Is curt", weight=-1, tags=("tone",)),
    Criterion(check=short, name="short", weight=1),
]

SAID = (
    "Well, could you please look at $x^2$ again?",
    "Thank you, that is all there is to say about it, and more words than anybody wanted to read.",
    "No.",
    "It is 7, see the source.\n\n```python\nprint(7)\n```",
)


def rows(count: int, said=SAID) -> list[dict]:
    """Examples of two rollouts each, of two tasks in turn."""
    return [
        {
            "example_id": f"e{number // 2}",
            "prompt": [{"role": "user", "content": f"Question {number // 2}"}],
            "completion": [{"role": "assistant", "content": said[number % len(said)]}],
            "answer": "7",
            "task": ("sums", "letters")[number // 2 % 2],
        }
        for number in range(count)
    ]


def write_run(folder, data, *, failed=(), judge=None):
    """A run with all that a page shows: spending, timing, errors; `failed` rows have nothing to score."""
    rubric = Rubric(CRITERIA, name="manners", judge=judge or Judge())
    about = RunAbout.of("evaluate", rubric=rubric, judge="two judges", model="tiny-1")
    taken: list[Row] = []
    asyncio.run(score_rows(rubric, data, on_row=taken.append))
    with Journal.open(folder, about) as journal:
        for number, row in enumerate(taken):
            changes = {
                "spent": Spending(
                    calls=2, prompt=100, completion=10 + number, cost=0.001 * (number + 1)
                )
            }
            changes |= {"timing": {"generation": 0.5 + number, "scoring": 0.25}}
            if number in failed:
                changes |= {"error": "ConnectionError: the endpoint is gone"}
            journal.write(Row(**{**fields_of(row), **changes}))
        journal.finish()
    return folder


def fields_of(row: Row) -> dict:
    return {name: getattr(row, name) for name in ("example", "sample", "fields", "report")}


@pytest.fixture(scope="session")
def make_run():
    """Writes a run: `make_run(folder, rows)`."""
    return write_run


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, make_run):
    """Forty rollouts; number 7 broke the judges, number 12 has nothing to score."""
    data = rows(40)
    data[6]["completion"][0]["content"] = "break"
    return make_run(tmp_path_factory.mktemp("runs") / "manners", data, failed={11})


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory, make_run):
    """The same questions, all answered politely."""
    data = rows(40, said=("Could you please take 7, from this source?",))
    return make_run(tmp_path_factory.mktemp("runs") / "politer", data)


@pytest.fixture(scope="session")
def serve():
    """Serves runs: `serve(folder, …)` gives the address. All servers end with the session."""
    running = []

    def started(*folders):
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(make_page_app(ViewedRuns(folders)), log_level="error")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        running.append((server, thread, listening))
        return f"http://127.0.0.1:{listening.getsockname()[1]}/"

    yield started
    for server, thread, listening in running:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="session")
def site(serve, run_folder):
    """One run."""
    return serve(run_folder)


@pytest.fixture(scope="session")
def two_runs(serve, run_folder, other_folder):
    return serve(run_folder, other_folder)


@pytest.fixture
def look(page):
    """Opens an address and waits until the view is there."""

    def opened(address):
        page.goto(address)
        page.wait_for_selector("main[aria-busy=false]")
        return page

    return opened
