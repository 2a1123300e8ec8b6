"""The real server, asked over HTTP by the real `openai` client and by ours.

Asserted is what the engine must do: schemas, likelihoods, reuse of what was read, errors. Never what
this model thinks: it cannot judge.
"""

import asyncio
import json
import math
import signal
import subprocess
import sys
from typing import Literal

import httpx
import openai
import pytest
from pydantic import BaseModel

from assay import PerCriterionGrader, Refused, Rubric, Truncated
from assay.models import budget, model_of
from assay.models.model import json_schema

pytestmark = pytest.mark.slow


class Verdict(BaseModel):
    reason: Literal["it does", "it does not", "it is not clear"]
    verdict: Literal["MET", "UNMET"]


@pytest.fixture
async def client(server):
    async with openai.AsyncOpenAI(base_url=server.url, api_key="sesame", max_retries=0) as made:
        yield made


@pytest.fixture
def remote(server):
    return model_of(f"{server.url}#smoke", api_key="sesame")


async def test_the_openai_client_gets_json_of_the_schema(client):
    """Three in a row, warm and cold, constrained by the engine and not by luck."""
    described = {"name": "Verdict", "strict": True, "schema": json_schema(Verdict)}
    for number in range(3):
        answer = await client.chat.completions.create(
            model="smoke",
            messages=[{"role": "user", "content": f"Is {number} even?"}],
            response_format={"type": "json_schema", "json_schema": described},
            temperature=number,
            max_tokens=200,
        )
        assert answer.choices[0].finish_reason == "stop"
        Verdict.model_validate_json(answer.choices[0].message.content)


async def test_a_rubric_is_graded_through_the_openai_client(client):
    """Every criterion has a verdict on offer, or an error that says why not."""
    rubric = Rubric.from_dict(
        [{"requirement": "Names a river"}, {"requirement": "Is in French", "weight": -2}]
    )
    grader = PerCriterionGrader(model=model_of(client, "smoke"))
    [report] = await rubric.score(
        [{"prompt": "Where?", "completion": "By the Rhine."}], judge=grader
    )
    assert len(report.report) == 2
    for line in report.report:
        assert line.verdict in ("MET", "UNMET") or line.error


async def test_equal_requests_through_our_own_client_are_asked_once(remote, make_request):
    """Two at once, one call."""
    asked = make_request(schema=Verdict, max_tokens=200)
    with budget() as spent:
        one, other = await asyncio.gather(remote(asked), remote(asked))
    assert one.value == other.value
    assert (spent.calls, spent.cost) == (1, 0.0)


async def test_eight_at_once_are_all_answered(remote, make_request):
    """On two slots."""
    asked = [
        make_request(f"Does it name {n} rivers?", schema=Verdict, max_tokens=200) for n in range(8)
    ]
    replies = await asyncio.gather(*map(remote, asked))
    assert all(isinstance(reply.value, Verdict) for reply in replies)


async def test_likelihoods_come_with_each_token(remote, make_request):
    """Five alternatives, the written one among them, and together no more than certain."""
    reply = await remote(make_request(schema=Verdict, max_tokens=200, logprobs=5))
    for token in reply.logprobs:
        assert len(token.alternatives) == 5
        assert sum(map(math.exp, token.alternatives.values())) <= 1.0 + 1e-6


async def test_a_response_is_read_once_for_all_its_criteria(remote, make_request):
    """With the criterion last, at least 80 % of the second prompt is there already."""
    await remote(make_request("Does it name a town?", schema=Verdict, max_tokens=200))
    second = await remote(make_request("Does it name a mill?", schema=Verdict, max_tokens=200))
    assert second.usage.cached >= 0.8 * second.usage.prompt


async def test_a_reply_that_is_cut_off_is_no_verdict(remote, make_request):
    """Three tokens are not enough for the object."""
    with pytest.raises(Truncated):
        await remote(make_request(schema=Verdict, max_tokens=3))


async def test_a_prompt_that_is_too_long_is_refused_in_words(remote, make_request):
    """5,000 words for 4,096 tokens."""
    with pytest.raises(Refused, match="exceeds the available context size"):
        await remote(make_request("word " * 5000))


async def test_without_the_key_nobody_is_answered(server, make_request):
    """Other programs on this machine can reach the port, too."""
    with pytest.raises(Refused, match="Invalid API Key"):
        await model_of(f"{server.url}#smoke", api_key="barley")(make_request())


def test_as_a_program_it_says_where_it_is_and_stops_when_told(server):
    """One line of JSON, with a new key where none was set, without which no page in a browser is answered."""
    command = [
        sys.executable,
        "-m",
        "assay.local.llama_server",
        "--model",
        "smoke",
        "--threads",
        "1",
    ]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = json.loads(program.stdout.readline())
    assert said["model"] == "smoke"
    models = openai.OpenAI(base_url=said["url"], api_key=said["key"]).models.list()
    assert [model.id for model in models] == ["smoke"]
    page = httpx.post(
        f"{said['url']}/chat/completions",
        headers={"Host": "evil.example"},
        json={"model": "smoke", "messages": [{"role": "user", "content": "Hello"}]},
    )
    assert page.status_code == 401
    program.send_signal(signal.SIGINT)
    assert program.communicate() == ("", "")
    assert program.returncode == 0


def test_a_program_without_a_model_says_what_to_do(no_models):
    """On stderr, with a status."""
    command = [sys.executable, "-m", "assay.local.llama_server"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Three ways to a judge" in done.stderr
    assert "Traceback" not in done.stderr
