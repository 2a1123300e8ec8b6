"""The data of the page, over HTTP from a real server on this machine."""

import json
import socket
import threading
from io import StringIO

import httpx
import pytest
import uvicorn

from assay import Criterion, Rubric
from assay.runs import Run, score_rows
from assay.trust import read_run_labels
from assay.viewer.page_export import write_report
from assay.viewer.page_server import make_page_app
from assay.viewer.viewed_runs import ViewedRuns


def polite(completion):
    return "please" in completion


def short(completion):
    if completion == "break":
        raise ConnectionError("the judge is down")
    return len(completion) < 20


RUBRIC = Rubric(
    [Criterion(check=polite, name="polite", tags=("tone",)), Criterion(check=short, name="short")],
    name="manners",
)

ROWS = [
    {"example_id": "a", "prompt": "Ask.", "completion": "please do", "answer": "x", "task": "ask"},
    {"example_id": "a", "prompt": "Ask.", "completion": "do it now, and be quick about it"},
    {"example_id": "b", "prompt": "Say.", "completion": "break", "task": "say"},
    {"example_id": "c", "prompt": "Say.", "completion": "<script>1</script>", "task": "say"},
]


@pytest.fixture
async def folder(tmp_path):
    await score_rows(RUBRIC, ROWS, folder=tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def page(folder):
    """A client of the page, which a real server serves."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_page_app(ViewedRuns([folder])), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
        yield client
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture
def run(page):
    return page.get("/api/runs").json()[0]["id"]


def test_a_run_says_what_it_is(page):
    [told] = page.get("/api/runs").json()
    assert (told["name"], told["kind"], told["rubric"]["name"]) == ("run", "score", "manners")
    assert told["live"] is False


def test_the_overview_puts_errors_first(page, run):
    """One row of four is unscored; the others have 1, 0 and 0.5: a mean of 0.5."""
    told = page.get(f"/api/runs/{run}/overview").json()
    assert (told["rows"], told["scored"], told["unscored"]) == (4, 3, 1)
    [error] = told["errors"]
    assert (error["criteria"], error["kind"], error["count"], error["first_row"]) == (
        ["short"],
        "ConnectionError",
        1,
        3,
    )
    assert error["message"] == "ConnectionError: the judge is down"
    assert told["score"]["mean"] == 0.5
    assert sum(told["score"]["histogram"]["counts"]) == 3
    polite = told["criteria"][0]
    assert (polite["name"], polite["met"], polite["unmet"]) == ("polite", 1, 3)


def test_rows_are_filtered_and_sorted_where_they_are_kept(page, run):
    asked = {"q": "verdict:UNMET criterion:polite -error", "sort": "score", "descending": 1}
    told = page.get(f"/api/runs/{run}/rows", params=asked).json()
    assert told["total"] == 2
    assert [(row["example"], row["score"]) for row in told["rows"]] == [("c", 0.5), ("a", 0.0)]


def test_a_page_is_a_part_of_the_rows(page, run):
    told = page.get(f"/api/runs/{run}/rows", params={"offset": 1, "limit": 2}).json()
    assert [row["number"] for row in told["rows"]] == [2, 3]
    assert told["total"] == 4


def test_a_filter_that_cannot_be_read_says_why(page, run):
    reply = page.get(f"/api/runs/{run}/rows", params={"q": "scroe<1"})
    assert reply.status_code == 400
    assert reply.json()["error"] == "there is no 'scroe' to filter by: did you mean 'score'?"


def test_a_row_is_told_whole(page, run):
    told = page.get(f"/api/runs/{run}/rows/1").json()
    assert told["prompt"] == [{"role": "user", "content": "Ask."}]
    assert told["completion"] == [{"role": "assistant", "content": "please do"}]
    assert (told["answer"], told["score"]) == ("x", 1.0)
    assert [line["verdict"] for line in told["lines"]] == ["MET", "MET"]


def test_a_group_has_advantages(page, run):
    """Rewards 2 and 0: one above and one below their mean."""
    told = page.get(f"/api/runs/{run}/groups/a").json()
    assert [row["advantage"] for row in told["rows"]] == [1.0, -1.0]


@pytest.mark.parametrize(
    "path", ["runs/none/overview", "runs/{run}/rows/99", "runs/{run}/groups/z"]
)
def test_what_is_not_there_is_said_to_be_missing(page, run, path):
    reply = page.get(f"/api/{path.format(run=run)}")
    assert reply.status_code == 404
    assert "there is no" in reply.json()["error"]


def test_a_label_stands_beside_the_verdict(page, run, folder):
    """With author, time and the hash of the wording; the run itself is as it was."""
    before = list(Run.open(folder).file.read_rollouts())
    said = {"row": 2, "criterion": "polite", "verdict": "MET", "note": "curt", "rater": "ana"}
    told = page.post(f"/api/runs/{run}/labels", json=said).json()
    [label] = read_run_labels(Run.open(folder))
    assert label.to_dict() == told
    assert (label.example, label.sample, label.verdict, label.rater) == ("a", 1, "MET", "ana")
    assert label.time is not None
    assert label.guideline == Run.open(folder).about.rubric.criteria[0].question
    assert list(Run.open(folder).file.read_rollouts()) == before
    again = page.get(f"/api/runs/{run}/rows/2").json()
    assert again["lines"][0]["verdict"] == "UNMET"
    assert again["lines"][0]["labels"][0]["note"] == "curt"
    assert page.get(f"/api/runs/{run}/rows", params={"q": "label"}).json()["total"] == 1


@pytest.mark.parametrize("field", ["verdict", "note", "rater"])
def test_half_a_character_in_a_label_is_replaced(page, run, folder, field):
    """JSON can hold it, and text on a disk cannot."""
    label = {"row": 1, "criterion": "polite", "verdict": "MET", field: "A\ud800"}
    body = json.dumps(label)
    headers = {"Content-Type": "application/json"}
    reply = page.post(f"/api/runs/{run}/labels", content=body, headers=headers)
    assert reply.status_code == 200
    [saved] = read_run_labels(Run.open(folder))
    assert getattr(saved, field).startswith("A")


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'{"row": 1e400, "criterion": "polite", "verdict": "MET"}', "application/json", 400),
        (b'{"row": 1, "criterion": "polite", "verdict": "MET"}', "text/plain", 415),
        (b'{"row": 1, "criterion": "none", "verdict": "MET"}', "application/json", 404),
        (b'{"row": 99, "criterion": "polite", "verdict": "MET"}', "application/json", 404),
        (b'{"row": 1, "criterion": "polite", "verdict": []}', "application/json", 400),
        (b'{"row": 1, "criterion": "polite", "verdict": 1e400}', "application/json", 400),
        (
            b'{"row": 1, "criterion": "polite", "verdict": %s}' % (b"7" * 400),
            "application/json",
            400,
        ),
        (b" " * 200_000, "application/json", 413),
    ],
)
def test_what_is_no_label_is_refused(page, run, folder, body, kind, status):
    reply = page.post(f"/api/runs/{run}/labels", content=body, headers={"Content-Type": kind})
    assert reply.status_code == status
    assert reply.json()["error"]
    assert read_run_labels(Run.open(folder)) == []


def test_another_name_for_this_machine_is_refused(page):
    """So that no page of another site can read this one through a name of its own."""
    assert page.get("/api/runs", headers={"Host": "evil.example"}).status_code == 400


def test_the_page_may_run_nothing_but_its_own_scripts(page):
    for path in ("/", "/api/runs"):
        policy = page.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("name", ["../app.py", "%2e%2e/app.py", "package.json", "none.js"])
def test_only_files_of_the_page_are_served(page, name):
    assert page.get(f"/{name}").status_code == 404


async def test_two_runs_are_compared(folder, tmp_path):
    """The same examples, answered otherwise: flips know the rows of both."""
    rows = [{**row, "completion": "please"} for row in ROWS]
    await score_rows(RUBRIC, rows, folder=tmp_path / "other")
    viewed = ViewedRuns([folder, tmp_path / "other"])
    told = viewed.compare(*viewed.runs)
    assert told["examples"] == 3
    assert {flip["first_row"] for flip in told["flips"]} <= {1, 2, 3, 4}


HALVES = [
    {
        "id": "a\ud83d",
        "prompt": "p\ud83d",
        "completion": "x\ud83d y",
        "task": "t\ud83d",
        "c\ud83d": "\udc00",
    },
    {"id": "b", "prompt": "p", "completion": "whole \U0001f600"},
]


@pytest.fixture
async def half_folder(tmp_path):
    """A run in which every text that a row brings holds half a character, and an error repeats it."""

    def repeats(completion):
        raise ValueError(completion)

    rubric = Rubric([Criterion(check=repeats, name="repeats", weight=0), polite])
    await score_rows(rubric, HALVES, folder=tmp_path / "run")
    return tmp_path / "run"


class TestHalfCharacters:
    """Half an emoji is no UTF-8, and spoils neither its own rollout nor the others."""

    @pytest.fixture
    def folder(self, half_folder):
        return half_folder

    def test_every_address_answers(self, page):
        """The half is spelled out, in a way that links lead on with."""
        [run] = page.get("/api/runs").json()
        rows = page.get(f"/api/runs/{run['id']}/rows").json()["rows"]
        assert [row["example"] for row in rows] == [r"a\ud83d", "b"]
        assert rows[0]["preview"] == r"x\ud83d y"
        assert r"x\ud83d y" in rows[0]["error"]
        whole = page.get(f"/api/runs/{run['id']}/rows/1").json()
        assert (whole["text"], whole["columns"]) == (
            r"x\ud83d y",
            {"id": r"a\ud83d", r"c\ud83d": r"\udc00"},
        )
        assert page.get(f"/api/runs/{run['id']}/rows/2").json()["text"] == "whole \U0001f600"
        group = page.get(f"/api/runs/{run['id']}/groups/{rows[0]['example']}").json()
        assert [row["number"] for row in group["rows"]] == [1]
        assert page.get(f"/api/runs/{run['id']}/overview").json()["rows"] == 2
        assert page.get("/api/compare", params={"a": run["id"], "b": run["id"]}).status_code == 200

    def test_a_label_names_the_rollout_exactly(self, page, folder):
        """As the run spells it, so that it is found again in another run of the same data."""
        [run] = page.get("/api/runs").json()
        said = {"row": 1, "criterion": "polite", "verdict": "MET"}
        assert page.post(f"/api/runs/{run['id']}/labels", json=said).status_code == 200
        [label] = read_run_labels(Run.open(folder))
        assert label.example == r"a\ud83d"
        rows = page.get(f"/api/runs/{run['id']}/rows", params={"q": "label"}).json()
        assert [row["number"] for row in rows["rows"]] == [1]

    def test_the_page_is_written_as_a_file(self, folder):
        """Of every rollout."""
        file = StringIO()
        assert write_report([folder], file) == 2
        file.getvalue().encode()


def test_numbers_that_no_table_holds_are_numbers_of_no_row(page, folder):
    """In an address, and in a label that was written by hand."""
    [run] = page.get("/api/runs").json()
    assert page.get(f"/api/runs/{run['id']}/rows/{2**63}").status_code == 404
    said = {"row": 2**70, "criterion": "polite", "verdict": "MET"}
    assert page.post(f"/api/runs/{run['id']}/labels", json=said).status_code == 404
    label = {"example": "a", "sample": 2**63, "criterion": "polite", "verdict": "MET"}
    (folder / "labels.jsonl").write_text(json.dumps(label) + "\n")
    assert page.get(f"/api/runs/{run['id']}/rows").status_code == 200
