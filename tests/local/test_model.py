"""The engine in a process of its own: started when needed, mended when it dies, gone with us."""

import asyncio
import logging
import os
import select
import signal
import subprocess
import sys

import pytest

from assay import PerCriterionGrader, Refused, Rubric, dry_run
from assay.local.local_model import NOT_A_JUDGEMENT, LocalModel
from assay.models import model_of

pytestmark = pytest.mark.slow


async def test_the_likelihood_of_one_token_is_a_whole_reply(model, make_request, caplog):
    """Yes against No by its log-probability; that the engine stopped there is no truncation."""
    reply = await model(make_request(max_tokens=1, logprobs=20))
    [token] = reply.logprobs
    assert {"Yes", "No"} <= token.alternatives.keys()
    assert (reply.finish_reason, reply.usage.completion, reply.cost) == ("stop", 1, 0.0)


async def test_smoke_says_what_it_is_wherever_it_is_named(model, make_request, caplog):
    """In its id, in every reply and in the log."""
    with caplog.at_level(logging.WARNING):
        reply = await model(make_request(max_tokens=1))
    assert NOT_A_JUDGEMENT in model.id
    assert NOT_A_JUDGEMENT in reply.model
    assert NOT_A_JUDGEMENT in caplog.text
    assert not model.is_judge


async def test_nothing_starts_before_the_first_request(model, make_request):
    """Naming a model is cheap, and it has one engine for all who ask."""
    assert model.pid is None
    asked = [make_request(f"Does it name {n} mills? Yes or No?", max_tokens=1) for n in range(3)]
    await asyncio.gather(*map(model, asked))
    started = model.pid
    await model(asked[0])
    assert model.pid == started is not None
    model.close()
    assert model.pid is None


async def test_criteria_that_arrive_mixed_are_answered_by_response(model, make_request):
    """Three responses, four criteria each, all at once: each response is read about once."""

    def of(response, number):
        asked = make_request(f"Does it name {number} mills? Yes or No?", max_tokens=1)
        system, shown, words = asked.messages
        shown = {**shown, "content": f"{response} {shown['content']}"}
        return type(asked)((system, shown, words), max_tokens=1, logprobs=1, shared=2)

    replies = await asyncio.gather(
        *(model(of(response, number)) for number in range(4) for response in ("A", "B", "C"))
    )
    read = sum(reply.usage.prompt - reply.usage.cached for reply in replies)
    once = 3 * replies[0].usage.prompt
    assert read <= 2 * once


async def test_a_cancelled_request_stops_in_the_engine(model, make_request):
    """A long one is given up, and the next one is answered without its 3,000 words being read."""
    await model.start()
    long = asyncio.create_task(model(make_request("word " * 3000, max_tokens=1)))
    await asyncio.sleep(0)
    while not long.done():
        await asyncio.sleep(0.1)
        long.cancel()
    assert long.cancelled()
    reply = await model(make_request(max_tokens=1))
    assert reply.text


async def test_an_engine_that_dies_is_started_again(model, make_request):
    """The request that met its death is asked once more."""
    await model.start()
    first = model.pid
    os.kill(first, signal.SIGKILL)
    reply = await model(make_request(max_tokens=1))
    assert reply.text
    assert model.pid != first


async def test_an_engine_that_cannot_start_says_why(tmp_path, make_request):
    """The file begins as it should, and that is all of it."""
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    model = LocalModel(f"local:{broken}")
    with pytest.raises(Refused, match="did not start"):
        await model(make_request())
    model.close()


async def test_a_dry_run_starts_no_engine(model, make_request):
    """What would be asked is counted, and nothing is loaded."""
    rubric = Rubric.from_dict([{"requirement": "Names a river"}])
    with dry_run() as ledger:
        await rubric.score([{"completion": "The Rhine."}], judge=PerCriterionGrader(model=model))
    assert model.pid is None
    assert ledger.calls == 1


def test_by_its_name_it_is_one_model_for_all():
    """Two graders share an engine."""
    assert model_of("smoke") is model_of("smoke")


PROGRAM = """
import asyncio, os, signal, sys
from assay.local.local_model import LocalModel
model = LocalModel("smoke", threads=1)
asyncio.run(model.start())
print(model.pid, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="no way here to wait for a stranger's end"
)
@pytest.mark.parametrize("how", ["ends", "killed"])
def test_the_engine_ends_with_the_program_that_started_it(how):
    """Also when that is killed and can tell nobody."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, text=True
    )
    pid = int(program.stdout.readline())
    try:
        engine = os.pidfd_open(pid)
    except ProcessLookupError:
        engine = None
    program.communicate()
    assert program.returncode == (-signal.SIGKILL if how == "killed" else 0)
    if engine is not None:
        # Readable when the process is gone.
        assert select.select([engine], [], [], 30)[0]
        os.close(engine)
