"""Runs for the viewer, and a real Chromium to open them in."""

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

# Long, because a busy machine is slow.
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
    """Mark tests that use the browser as slow."""
    if "browser" in getattr(item, "fixturenames", ()):
        item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that uses the browser in the thread of the browser.

    Playwright keeps an event loop running in its thread; in the main thread it would block every async test.
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
    """The options of the browser window. A test file may override this fixture."""
    return {"viewport": {"width": 1280, "height": 800}}


@pytest.fixture
def page(browser, browser_thread, context_options):
    """Open a new window. Scripts must not raise errors, open dialogs or violate the content policy."""
    problems: list[str] = []

    def open_window():
        context = browser.new_context(**context_options)
        context.set_default_timeout(30_000)
        new_page = context.new_page()
        new_page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        new_page.on("dialog", lambda dialog: (problems.append("a dialog"), dialog.dismiss()))
        new_page.on(
            "console",
            lambda message: problems.append(message.text) if message.type == "error" else None,
        )
        return new_page

    new_page = browser_thread.submit(open_window).result()
    new_page.problems = problems
    yield new_page
    browser_thread.submit(new_page.context.close).result()
    assert problems == []


class Judge(Autograder):
    """Two judges, the second of which is stricter. Both fail for the word `break`."""

    async def judge(self, to_grade, rubric, query=None):
        return [self.score_criterion(criterion, to_grade) for criterion in rubric]

    def score_criterion(self, criterion: Criterion, text: str) -> Score:
        if "break" in text:
            return Score.failed("TimeoutError: the judge did not answer within 60 s")
        if criterion.allow_na and "source" not in text:
            return Score.not_applicable("Nothing rests on a source.")
        lenient, strict = "please" in text or "Thank" in text, "please" in text
        quote = "could you please" if "please" in text else "as everybody knows"
        votes = [
            CriterionReport(
                name=name, value=float(is_met), verdict=criterion.choices[-1 if is_met else 0]
            )
            for name, is_met in (("lenient", lenient), ("strict", strict))
        ]
        disagreement = float(lenient != strict)
        verdict = criterion.choices[-1 if strict else 0]
        return Score(
            float(strict), f'It says "{quote}".', verdict, lines=votes, disagreement=disagreement
        )


def is_short(completion):
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return len(text) < 60


CRITERIA = [
    Criterion(name="polite", requirement="Is polite", weight=2, tags=("tone",)),
    Criterion(name="cites", requirement="Names a source", weight=1, allow_na=True, tags=("facts",)),
    Criterion(name="curt", requirement="Is curt", weight=-1, tags=("tone",)),
    Criterion(check=is_short, name="short", weight=1),
]

COMPLETIONS = (
    "Well, could you please look at $x^2$ again?",
    "Thank you, that is all there is to say about it, and more words than anybody wanted to read.",
    "No.",
    "It is 7, see the source.\n\n```python\nprint(7)\n```",
)


def rows(count: int, completions=COMPLETIONS) -> list[dict]:
    """Return rows with two rollouts for each example, whose tasks alternate."""
    return [
        {
            "example_id": f"e{index // 2}",
            "prompt": [{"role": "user", "content": f"Question {index // 2}"}],
            "completion": [{"role": "assistant", "content": completions[index % len(completions)]}],
            "answer": "7",
            "task": ("sums", "letters")[index // 2 % 2],
        }
        for index in range(count)
    ]


def write_run(folder, data, *, failed=(), judge=None):
    """Write a run with spending, timing and errors; `failed` rows have nothing to score."""
    rubric = Rubric(CRITERIA, name="manners", judge=judge or Judge())
    about = RunAbout.of("evaluate", rubric=rubric, judge="two judges", model="tiny-1")
    scored_rows: list[Row] = []
    asyncio.run(score_rows(rubric, data, on_row=scored_rows.append))
    with Journal.open(folder, about) as journal:
        for number, row in enumerate(scored_rows):
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
    """Return the function that writes a run: `make_run(folder, rows)`."""
    return write_run


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, make_run):
    """Forty rollouts; the judges failed for number 7, and number 12 has nothing to score."""
    data = rows(40)
    data[6]["completion"][0]["content"] = "break"
    return make_run(tmp_path_factory.mktemp("runs") / "manners", data, failed={11})


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory, make_run):
    """A run of the same questions, all answered politely."""
    data = rows(40, completions=("Could you please take 7, from this source?",))
    return make_run(tmp_path_factory.mktemp("runs") / "politer", data)


@pytest.fixture(scope="session")
def serve():
    """Serve runs: `serve(folder, …)` returns the URL. All servers stop at the end of the session."""
    servers = []

    def start(*folders):
        listening_socket = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(make_page_app(ViewedRuns(folders)), log_level="error")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening_socket]})
        thread.start()
        servers.append((server, thread, listening_socket))
        return f"http://127.0.0.1:{listening_socket.getsockname()[1]}/"

    yield start
    for server, thread, listening_socket in servers:
        server.should_exit = True
        thread.join()
        listening_socket.close()


@pytest.fixture(scope="session")
def site(serve, run_folder):
    """The URL of a server of one run."""
    return serve(run_folder)


@pytest.fixture(scope="session")
def two_runs(serve, run_folder, other_folder):
    return serve(run_folder, other_folder)


@pytest.fixture
def open_page(page):
    """Open a URL and wait until the view is loaded."""

    def open_url(url):
        page.goto(url)
        page.wait_for_selector("main[aria-busy=false]")
        return page

    return open_url
