"""Replies, usage and scores with values that no honest program gives: an error of their rollout."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from assay import Criterion, Limits, PerCriterionGrader, Price, Request, Rubric, Score, model_of
from assay.errors import NoReply
from assay.models import Reply, Usage, budget
from assay.runs import Row, Run, RunAbout, score_rows
from assay.runs.journal import Journal

HONEST = {
    "model": "judge-1",
    "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1_000_000},
}
VERDICT = json.dumps({"explanation": "It is there.", "criterion_status": "MET"})


@contextmanager
def endpoint(changes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Serve a judge that says MET; yield its URL.

    If the prompt contains a key of `changes`, its value replaces fields of the answer.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            choice = {"message": {"content": VERDICT}, "finish_reason": "stop"}
            answer: dict[str, Any] = {"choices": [choice], **HONEST}
            for word, change in changes.items():
                if word in body:
                    answer |= change
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def judge_at(url: str, **options: Any) -> Any:
    return model_of(f"{url}#judge-1", limits=Limits(timeout=5.0, deadline=20.0), **options)


def tokens(prompt: object, completion: object = 1) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


BAD_ANSWERS = {
    "NaN tokens": (tokens(float("nan")), "prompt_tokens is nan"),
    "infinite tokens": (tokens(1, float("inf")), "completion_tokens is inf"),
    "1e308 tokens": (tokens(1e308), r"prompt_tokens is 1e\+308"),
    "tokens of 400 digits": (tokens(10**400), "prompt_tokens is 1000"),
    "negative tokens": (tokens(-5_000_000), "prompt_tokens is -5000000"),
    "half a token": (tokens(0.5), "prompt_tokens is 0.5"),
    "tokens as a text": (tokens("many"), "prompt_tokens is 'many'"),
    "tokens as a list": (tokens([1]), r"prompt_tokens is \[1\]"),
    "a model that is a number": ({"model": 7}, "its model is 7"),
    "a model that is a list": ({"model": ["a"]}, r"its model is \['a'\]"),
}


@pytest.mark.parametrize(("change", "words"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_an_answer_with_wrong_fields_is_an_error(change, words):
    with endpoint({"": change}) as url, pytest.raises(NoReply, match=words):
        await judge_at(url)(Request.of("You judge.", "Is it even?"))


async def test_whole_numbers_of_tokens_may_be_written_as_floats():
    with endpoint({"": tokens(12.0, 3.0)}) as url:
        reply = await judge_at(url)(Request.of("You judge.", "Is it even?"))
    assert reply.usage == Usage(prompt=12, completion=3)


@pytest.mark.parametrize("change", [change for change, _ in BAD_ANSWERS.values()], ids=BAD_ANSWERS)
async def test_one_wrong_answer_leaves_the_run_readable(tmp_path, change):
    """Only the rollout that got it is unscored, and the run has its summary."""
    rubric = Rubric([Criterion(requirement="It names a city.", name="city")])
    rows = [{"completion": "Paris"}, {"completion": "BAD"}, {"completion": "Rome"}]
    with endpoint({"BAD": change}) as url:
        grader = PerCriterionGrader(model=judge_at(url))
        summary = await score_rows(rubric, rows, folder=tmp_path / "run", judge=grader)
    assert (summary.scored, summary.unscored) == (2, 1)
    assert summary.errors == {"NoReply": 1}
    run = Run.open(tmp_path / "run")
    assert [row.score for row in run.rows()] == [1.0, None, 1.0]
    assert run.work_out().spent == run.summary().spent == summary.spent
    assert summary.spent.calls == 3


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -9_000_000, "completion_tokens": 0},
        {
            "prompt_tokens": 1,
            "completion_tokens": 0,
            "prompt_tokens_details": {"cached_tokens": 9_000_000},
        },
    ],
    ids=["negative", "more cached than sent"],
)
async def test_no_usage_gives_money_back(usage):
    """A call never has a negative cost, so a budget never grows."""
    price = Price(input=2.0, output=8.0, cached=0.5)
    with endpoint({"": {"usage": usage}}) as url, budget() as ledger:
        judge = judge_at(url, price=price)
        with suppress(NoReply):
            await judge(Request.of("You judge.", "Is it even?"))
        assert ledger.calls == 1
        assert ledger.cost > 0


class OddModel:
    """A judge that a user wrote, whose replies have a field of the wrong type."""

    id = "odd"

    async def __call__(self, request: Request) -> Reply:
        return Reply(VERDICT, model=7)  # type: ignore[arg-type]


async def test_a_wrongly_typed_reply_of_a_users_model_is_an_error():
    rubric = Rubric([Criterion(requirement="It names a city.", name="city")])
    grader = PerCriterionGrader(model=OddModel())
    [report] = await rubric.score([{"completion": "Paris"}], judge=grader)
    assert report.score is None
    assert "its model is 7" in report.errors["city"]


@pytest.mark.parametrize(
    ("extras", "words"),
    [
        ({"verdict": 7}, "its verdict is 7"),
        ({"error": 7}, "its error is 7"),
        ({"lines": 7}, "its lines are 7"),
        ({"lines": ["a"]}, "its lines hold 'a'"),
        ({"disagreement": float("nan")}, "its disagreement is nan"),
        ({"citations": ["a"]}, "citations holds 'a'"),
        ({"citations": [{"start": "x"}]}, "citations is 'x'"),
        ({"asked": "yes"}, "its asked is 'yes'"),
    ],
)
async def test_a_score_with_wrongly_typed_fields_is_an_error_of_its_rollout(
    tmp_path, extras, words
):
    def check(completion: str) -> Score | float:
        return Score(1.0, **extras) if completion == "BAD" else 0.5

    rows = [{"completion": "good"}, {"completion": "BAD"}]
    summary = await score_rows(Rubric([check]), rows, folder=tmp_path / "run")
    assert (summary.scored, summary.unscored) == (1, 1)
    first, second = Run.open(tmp_path / "run").rows()
    assert first.score == 0.5
    assert words in second.errors["check"]


@pytest.mark.parametrize(
    "change",
    [{"model": 7}, {"timing": {"scoring": "long"}}, {"error": 7}],
    ids=str,
)
def test_a_row_that_could_not_be_read_is_saved_as_an_error(tmp_path, change):
    """A program may write rows itself."""
    with Journal.open(tmp_path, RunAbout.of("score")) as journal:
        journal.write(Row("0", fields={"completion": "Paris"}))
        journal.write(Row(**{"example": "1", "fields": {"completion": "Rome"}} | change))
        summary = journal.finish()
    first, second = Run.open(tmp_path).rows()
    assert first.error is None
    assert "could not be saved" in (second.error or "")
    assert summary.failed == 1
