"""The data of the page, requested from a real server on this machine."""

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
    [
        Criterion(check=polite, name="polite", tags=("tone",)),
        Criterion(check=short, name="short"),
    ],
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
    """An HTTP client of a real server of the page."""
    listening_socket = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_page_app(ViewedRuns([folder])), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening_socket]})
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{listening_socket.getsockname()[1]}") as client:
        yield client
    server.should_exit = True
    thread.join()
    listening_socket.close()


@pytest.fixture
def run(page):
    return page.get("/api/runs").json()[0]["id"]


def test_the_list_of_runs_describes_each_run(page):
    [data] = page.get("/api/runs").json()
    assert (data["name"], data["kind"], data["rubric"]["name"]) == ("run", "score", "manners")
    assert data["live"] is False


def test_the_overview_describes_errors_scores_and_criteria(page, run):
    """One row of four is unscored; the others have 1, 0 and 0.5: a mean of 0.5."""
    data = page.get(f"/api/runs/{run}/overview").json()
    assert (data["rows"], data["scored"], data["unscored"]) == (4, 3, 1)
    [error] = data["errors"]
    assert (error["criteria"], error["kind"], error["count"], error["first_row"]) == (
        ["short"],
        "ConnectionError",
        1,
        3,
    )
    assert error["message"] == "ConnectionError: the judge is down"
    assert data["score"]["mean"] == 0.5
    assert sum(data["score"]["histogram"]["counts"]) == 3
    polite = data["criteria"][0]
    assert (polite["name"], polite["met"], polite["unmet"]) == ("polite", 1, 3)


def test_the_server_filters_and_sorts_rows(page, run):
    parameters = {"q": "verdict:UNMET criterion:polite -error", "sort": "score", "descending": 1}
    data = page.get(f"/api/runs/{run}/rows", params=parameters).json()
    assert data["total"] == 2
    assert [(row["example"], row["score"]) for row in data["rows"]] == [("c", 0.5), ("a", 0.0)]


def test_rows_are_returned_in_pages(page, run):
    data = page.get(f"/api/runs/{run}/rows", params={"offset": 1, "limit": 2}).json()
    assert [row["number"] for row in data["rows"]] == [2, 3]
    assert data["total"] == 4


def test_an_invalid_filter_is_answered_with_400_and_a_reason(page, run):
    reply = page.get(f"/api/runs/{run}/rows", params={"q": "scroe<1"})
    assert reply.status_code == 400
    assert reply.json()["error"] == "there is no 'scroe' to filter by: did you mean 'score'?"


def test_a_row_is_returned_completely(page, run):
    data = page.get(f"/api/runs/{run}/rows/1").json()
    assert data["prompt"] == [{"role": "user", "content": "Ask."}]
    assert data["completion"] == [{"role": "assistant", "content": "please do"}]
    assert (data["answer"], data["score"]) == ("x", 1.0)
    assert [line["verdict"] for line in data["lines"]] == ["MET", "MET"]


def test_a_group_has_advantages(page, run):
    """Rewards 2 and 0 are 1 above and 1 below their mean."""
    data = page.get(f"/api/runs/{run}/groups/a").json()
    assert [row["advantage"] for row in data["rows"]] == [1.0, -1.0]


@pytest.mark.parametrize(
    "path", ["runs/none/overview", "runs/{run}/rows/99", "runs/{run}/groups/z"]
)
def test_an_unknown_run_row_or_group_is_answered_with_404(page, run, path):
    reply = page.get(f"/api/{path.format(run=run)}")
    assert reply.status_code == 404
    assert "there is no" in reply.json()["error"]


def test_a_label_is_saved_without_changing_the_run(page, run, folder):
    """With author, time and the hash of the requirement."""
    before = list(Run.open(folder).file.read_rollouts())
    new_label = {"row": 2, "criterion": "polite", "verdict": "MET", "note": "curt", "rater": "ana"}
    data = page.post(f"/api/runs/{run}/labels", json=new_label).json()
    [label] = read_run_labels(Run.open(folder))
    assert label.to_dict() == data
    assert (label.example, label.sample, label.verdict, label.rater) == ("a", 1, "MET", "ana")
    assert label.time is not None
    assert label.guideline == Run.open(folder).about.rubric.criteria[0].question
    assert list(Run.open(folder).file.read_rollouts()) == before
    row = page.get(f"/api/runs/{run}/rows/2").json()
    assert row["lines"][0]["verdict"] == "UNMET"
    assert row["lines"][0]["labels"][0]["note"] == "curt"
    assert page.get(f"/api/runs/{run}/rows", params={"q": "label"}).json()["total"] == 1


@pytest.mark.parametrize("field", ["verdict", "note", "rater"])
def test_a_lone_surrogate_in_a_label_is_replaced(page, run, folder, field):
    """JSON can contain it, but a text file cannot."""
    label = {"row": 1, "criterion": "polite", "verdict": "MET", field: "A\ud800"}
    body = json.dumps(label)
    headers = {"Content-Type": "application/json"}
    reply = page.post(f"/api/runs/{run}/labels", content=body, headers=headers)
    assert reply.status_code == 200
    [saved] = read_run_labels(Run.open(folder))
    assert getattr(saved, field).startswith("A")


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
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
def test_an_invalid_label_is_refused(page, run, folder, body, content_type, status):
    reply = page.post(
        f"/api/runs/{run}/labels", content=body, headers={"Content-Type": content_type}
    )
    assert reply.status_code == status
    assert reply.json()["error"]
    assert read_run_labels(Run.open(folder)) == []


def test_an_unknown_host_name_is_refused(page):
    """This stops pages of other sites whose host name resolves to this machine (DNS rebinding)."""
    assert page.get("/api/runs", headers={"Host": "evil.example"}).status_code == 400


def test_the_content_policy_allows_only_own_scripts(page):
    for path in ("/", "/api/runs"):
        policy = page.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("name", ["../app.py", "%2e%2e/app.py", "package.json", "none.js"])
def test_only_files_of_the_page_are_served(page, name):
    assert page.get(f"/{name}").status_code == 404


async def test_two_runs_can_be_compared(folder, tmp_path):
    """The same examples with other answers; changed verdicts refer to rows of both runs."""
    rows = [{**row, "completion": "please"} for row in ROWS]
    await score_rows(RUBRIC, rows, folder=tmp_path / "other")
    viewed = ViewedRuns([folder, tmp_path / "other"])
    data = viewed.compare(*viewed.runs)
    assert data["examples"] == 3
    assert {flip["first_row"] for flip in data["flips"]} <= {1, 2, 3, 4}


ROWS_WITH_SURROGATES = [
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
async def folder_with_surrogates(tmp_path):
    """A run in which every text of a row contains a lone surrogate, and so does its error."""

    def repeats(completion):
        raise ValueError(completion)

    rubric = Rubric([Criterion(check=repeats, name="repeats", weight=0), polite])
    await score_rows(rubric, ROWS_WITH_SURROGATES, folder=tmp_path / "run")
    return tmp_path / "run"


class TestLoneSurrogates:
    """Half of an emoji is not valid UTF-8, but its rollout and the others can be shown."""

    @pytest.fixture
    def folder(self, folder_with_surrogates):
        return folder_with_surrogates

    def test_every_request_is_answered(self, page):
        """The surrogate is escaped, in a form that works in links."""
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

    def test_a_label_contains_the_example_id_of_the_run(self, page, folder):
        """So that it matches in another run of the same data."""
        [run] = page.get("/api/runs").json()
        new_label = {"row": 1, "criterion": "polite", "verdict": "MET"}
        assert page.post(f"/api/runs/{run['id']}/labels", json=new_label).status_code == 200
        [label] = read_run_labels(Run.open(folder))
        assert label.example == r"a\ud83d"
        rows = page.get(f"/api/runs/{run['id']}/rows", params={"q": "label"}).json()
        assert [row["number"] for row in rows["rows"]] == [1]

    def test_a_report_can_be_written(self, folder):
        """With every rollout."""
        file = StringIO()
        assert write_report([folder], file) == 2
        file.getvalue().encode()


def test_numbers_beyond_the_range_of_the_table_match_no_row(page, folder):
    """In a URL, and in a label that was written by hand."""
    [run] = page.get("/api/runs").json()
    assert page.get(f"/api/runs/{run['id']}/rows/{2**63}").status_code == 404
    new_label = {"row": 2**70, "criterion": "polite", "verdict": "MET"}
    assert page.post(f"/api/runs/{run['id']}/labels", json=new_label).status_code == 404
    label = {"example": "a", "sample": 2**63, "criterion": "polite", "verdict": "MET"}
    (folder / "labels.jsonl").write_text(json.dumps(label) + "\n")
    assert page.get(f"/api/runs/{run['id']}/rows").status_code == 200
