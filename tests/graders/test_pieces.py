"""Conversations that are longer than the judge's window: read in pieces, settled by what the pieces cite."""

import json
import random
import re
from itertools import pairwise
from typing import Any

import pytest

from assay import GradingError, PerBatchGrader, PerCriterionGrader, Rubric
from assay.cli import main
from assay.graders.pieces import fits, size_of, split_into_pieces
from assay.messages import Part, read_parts
from assay.models import dry_run, model_of
from assay.testing import ModelServer

# A judge that answers from what it reads, and cites all that bears on the question.

_BLOCK = re.compile(r'<(?:turn|part) id="([^"]+)"[^>]*>\n?|</(?:turn|part)>')
_CALLS = re.compile(r"search_orders\(|refund\(")
RULES = {
    "Mentions the orchid": (re.compile("orchid"), lambda found, end: bool(found)),
    "Swears": (re.compile("damn"), lambda found, end: bool(found)),
    "Never tells the password": (re.compile("hunter2"), lambda found, end: not found),
    "Searches before it refunds": (
        _CALLS,
        lambda found, end: "refund(" in found[1:] and found[0] == "search_orders(",
    ),
    "Apologises at least three times": (re.compile("sorry"), lambda found, end: len(found) >= 3),
    "Ends with thanks": (re.compile("Thanks!"), lambda found, end: end.endswith("Thanks!")),
    "The mood in the end": (
        re.compile("mood=(?:low|fair|high)"),
        lambda found, end: found[-1][5:] if found else "low",
    ),
}
RUBRIC = Rubric.from_dict(
    [
        {"requirement": words, "weight": -1 if words == "Swears" else 1}
        | ({"choices": ["low", "fair", "high"]} if "mood" in words else {})
        for words in RULES
    ]
)
COUNTS = {
    "Apologises at least fifty times": (re.compile("sorry"), lambda found, end: len(found) >= 50)
}


def judged(user: str) -> dict[str, str]:
    """The reply to one prompt, in time that grows with its length alone."""
    response = user.partition("<response>\n")[2].rpartition("\n</response>")[0]
    words = re.search(r"<criterion>(.*)</criterion>", user)[1]
    pattern, rule = {**RULES, **COUNTS}[words]
    marks = [*_BLOCK.finditer(response)]
    found, cited, text, ends = (
        [],
        [],
        response if not marks else "",
        [mark.start() for mark in marks[1:]] + [len(response)],
    )
    address = ""
    for mark, end in zip(marks, ends, strict=True) if marks else ():
        address = mark[1] or address.partition(".")[0]
        block = response[mark.end() : end].strip("\n")
        text = block or text
        for hit in pattern.finditer(block):
            found.append(hit[0])
            cited.append(f'[{address}: "{block[max(0, hit.start() - 3) : hit.end()]}"]')
    if not marks:
        found = pattern.findall(response)
    verdict = rule(found, text.strip())
    said = verdict if isinstance(verdict, str) else "MET" if verdict else "UNMET"
    reason = f"It is so {' '.join(cited)}"
    return {
        "explanation": reason,
        "choice" if isinstance(verdict, str) else "criterion_status": said,
    }


def ask(*, system_prompt: str, user_prompt: str) -> dict[str, str]:
    return judged(user_prompt)


FILLER = "the of a customer order parcel 是在路上 später número please look again tomorrow invoice shelf grey über"
FACTS = (
    "an orchid",
    "damn it",
    "it is hunter2",
    "so sorry",
    "sorry again",
    "very sorry",
    "mood=low",
    "mood=fair",
    "mood=high",
    "Thanks!",
)


def conversation(seed: int, characters: int, facts: int) -> list[dict[str, Any]]:
    """Turns, calls and results of all lengths, some of them huge, with facts strewn in."""
    chance = random.Random(seed)
    turns: list[dict[str, Any]] = []
    filler = " ".join(chance.choices(FILLER.split(), k=2000))
    length = 0
    while length < characters or turns[-1]["role"] != "assistant":
        size = min(
            characters,
            int(chance.choice([30, 300, 3000, 40_000 if characters > 50_000 else 9_000])),
        )
        text = (filler * (size // len(filler) + 1))[:size]
        number = len(turns)
        if number % 3 == 1:
            turns.append({"role": "tool", "tool_call_id": f"c{number - 1}", "content": text})
        elif number % 3 == 2:
            turns.append({"role": "user", "content": text})
        else:
            call = {
                "id": f"c{number}",
                "function": {"name": chance.choice(["look", "list"]), "arguments": "{}"},
            }
            turns.append(
                {"role": "assistant", "content": text, "tool_calls": [call] if number % 2 else []}
            )
        length += size
    for fact in chance.choices(FACTS, k=facts):
        turn = chance.choice(turns)
        at = turn["content"].rfind(" ", 0, chance.randrange(len(turn["content"])) + 1) + 1
        turn["content"] = f"{turn['content'][:at]}{fact} {turn['content'][at:]}"
    for name in chance.sample(["search_orders", "refund"], 2):
        spoken = chance.choice([turn for turn in turns if turn["role"] == "assistant"])
        spoken["tool_calls"] = [
            *spoken["tool_calls"],
            {"id": name, "function": {"name": name, "arguments": "{}"}},
        ]
    if chance.random() < 0.5:
        turns[-1] = {"role": "assistant", "content": f"{turns[-1]['content']} Thanks!"}
    return turns


def verdicts(report: Any) -> dict[str, Any]:
    assert not report.errors
    return {line.requirement: line.verdict for line in report.report}


def test_the_facts_decide():
    """The scripted judge gives every verdict in some conversation."""
    reports = [
        RUBRIC.grade_sync(conversation(seed, 4000, seed % 7), PerCriterionGrader(ask))
        for seed in range(30)
    ]
    seen = {answer for report in reports for answer in verdicts(report).items()}
    assert len(seen) == 2 * (len(RULES) - 1) + 3


@pytest.mark.parametrize("window", [6_000, 9_000, 25_000])
@pytest.mark.parametrize("seed", range(8))
def test_pieces_come_to_what_one_whole_reading_says(seed, window):
    """With parts that are cut, facts at every place, an order and a count over pieces, and a state in the end."""
    chat = conversation(seed, 150_000, seed)
    whole = RUBRIC.grade_sync(chat, PerCriterionGrader(ask), query="Help me.")
    pieces = RUBRIC.grade_sync(chat, PerCriterionGrader(ask, window=window), query="Help me.")
    assert verdicts(pieces) == verdicts(whole)
    assert pieces.score == whole.score
    for line in pieces.report:
        assert re.search(r"\(read in \d+ pieces\)$", line.reason)
        assert not any("found" in cited for cited in line.citations)
        parts = {part.address: part for part in read_parts("Help me.", chat)}
        for cited in line.citations:  # places are those of the whole part
            if "start" in cited:
                assert parts[cited["part"]].text[cited["start"] : cited["end"]] == cited["quote"]


def test_a_million_tokens_over_http():
    """Over a local endpoint, 4 MB come to what one whole reading says; every prompt fits, and all of it is read."""
    chat = conversation(3, 4_000_000, 9)
    whole = RUBRIC.grade_sync(chat, PerCriterionGrader(ask), query="Help me.")
    read: list[str] = []

    def serve(system: str, user: str) -> str:
        read.append(user)
        return json.dumps(judged(user))

    with ModelServer(serve) as server:
        pieces = RUBRIC.grade_sync(
            chat, PerCriterionGrader(model=server.model, window=128_000), query="Help me."
        )
    assert verdicts(pieces) == verdicts(whole)
    assert max(map(size_of, read)) < 4 * 128_000
    together = "".join(user for user in read if "orchid" in user.rpartition("<criterion>")[2])
    assert all(turn["content"][-20:] in together for turn in chat)


def test_what_fits_is_asked_as_before():
    """Up to the window, prompts are equal to the byte."""
    prompts: dict[Any, list[tuple[str, str]]] = {None: [], 100_000: []}
    chat = conversation(1, 30_000, 5)
    for window, kept in prompts.items():

        def keep(*, system_prompt: str, user_prompt: str, kept: Any = kept) -> dict[str, str]:
            kept.append((system_prompt, user_prompt))
            return judged(user_prompt)

        RUBRIC.grade_sync(chat, PerCriterionGrader(keep, window=window))
    assert prompts[None] == prompts[100_000]
    assert len(prompts[None]) == len(RULES)


def test_a_long_plain_text_and_a_long_query_are_read_in_pieces_too():
    """The one is a turn of its own, the other the turns before the response."""
    rubric = Rubric.from_dict(
        [{"requirement": "Mentions the orchid"}, {"requirement": "Swears", "weight": -1}]
    )
    filler = "a parcel on the shelf " * 4000
    grader = PerCriterionGrader(ask, window=6_000)
    report = rubric.grade_sync(f"{filler} an orchid {filler}", grader, query="Which?")
    assert [line.verdict for line in report.report] == ["MET", "UNMET"]
    assert report.report[0].citations[0]["part"] == "m2"
    report = rubric.grade_sync("It is there.", grader, query=f"{filler} damn it {filler}")
    assert [line.verdict for line in report.report] == ["UNMET", "MET"]


def test_a_batch_is_asked_about_each_piece():
    """All criteria in one call a piece, and one more for each that has to be settled."""
    calls: list[str] = []

    def batch(system: str, user: str) -> dict[str, Any]:
        calls.append(user)
        listed = re.findall(r"^(\d+)\. \[[^\]]*\] (.*)$", user.rpartition("<criteria>")[2], re.M)
        return {
            "criteria_evaluations": [
                {
                    "criterion_number": int(number),
                    **judged(f"{user.rpartition('<criteria>')[0]}<criterion>{words}</criterion>"),
                }
                for number, words in listed
            ]
        }

    rubric = Rubric.from_dict(
        [{"requirement": "Mentions the orchid"}, {"requirement": "Swears", "weight": -1}]
    )
    filler = "a parcel on the shelf " * 3000
    report = rubric.grade_sync(
        f"{filler} an orchid {filler}", PerBatchGrader(batch, size=None, window=8_000)
    )
    assert [line.verdict for line in report.report] == ["MET", "UNMET"]
    pieces = int(re.search(r"read in (\d+) pieces", report.report[0].reason)[1])
    assert len(calls) == pieces + 1


def test_a_piece_that_was_not_read_leaves_no_answer():
    """Missing is never a verdict: the line says which piece it was, and why."""

    def broken(*, system_prompt: str, user_prompt: str) -> dict[str, str]:
        if "hunter2" in user_prompt:
            raise ValueError("the judge is out")
        return judged(user_prompt)

    filler = "a parcel on the shelf " * 3000
    rubric = Rubric.from_dict([{"requirement": "Mentions the orchid"}])
    with pytest.raises(GradingError) as caught:
        rubric.grade_sync(f"{filler} hunter2 {filler}", PerCriterionGrader(broken, window=8_000))
    error = caught.value.report.errors["mentions_the_orchid"]
    assert re.match(
        r"JudgeError: piece \d+ of \d+ \(m1–m1\) was not read: ValueError: the judge is out", error
    )


def test_evidence_is_required_of_what_is_settled():
    """A piece need not show what another one does; the answer has to."""
    filler = "a parcel on the shelf " * 3000
    rubric = Rubric.from_dict([{"requirement": "Mentions the orchid", "requires_evidence": True}])
    report = rubric.grade_sync(
        f"{filler} an orchid {filler}", PerCriterionGrader(ask, window=8_000)
    )
    assert report.score == 1
    assert report.report[0].citations[0]["quote"] == "an orchid"


@pytest.mark.parametrize(("apologies", "score"), [(49, 0.0), (50, 1.0), (90, 1.0)])
def test_every_event_counts_however_many_there_are(apologies, score):
    """Most are in one piece, and their passages fit into one prompt only with few words around."""
    texts = [f"{number} " + "word " * 300 for number in range(60)]
    for number in range(apologies):
        texts[number % 45] += f"{number}x sorry " + "word " * 300
    chat = [{"role": "assistant", "content": text} for text in texts]
    rubric = Rubric.from_dict([{"requirement": "Apologises at least fifty times"}])
    report = rubric.grade_sync(chat, PerCriterionGrader(ask, window=20_000))
    assert report.score == score


def test_what_does_not_fit_is_read_in_another_round():
    """The judge cites every long turn, and of the short passages the one that decides."""

    def careful(*, system_prompt: str, user_prompt: str) -> dict[str, str]:
        turns = re.findall(r'<turn id="(m\d+)"[^>]*>\n(\d+)', user_prompt)
        reads_passages = len(user_prompt) < 1000 * len(turns)
        cited = [at for at, number in turns if number == "777" or not reads_passages]
        met = any(number == "777" for _, number in turns)
        return {
            "explanation": " ".join(f"[{at}]" for at in cited),
            "criterion_status": "MET" if met else "UNMET",
        }

    chat = [{"role": "assistant", "content": f"{n} " + "word " * 400} for n in range(1000)]
    rubric = Rubric.from_dict([{"requirement": "Names 777"}])
    report = rubric.grade_sync(chat, PerCriterionGrader(careful, window=20_000))
    assert report.score == 1.0
    assert re.search(
        r"\(read in \d+ pieces, and what was cited there in \d+\)$", report.report[0].reason
    )


def test_passages_that_never_fit_are_an_error():
    """A judge that cites everything, again and again."""

    def greedy(*, system_prompt: str, user_prompt: str) -> dict[str, str]:
        told = re.findall(r'<turn id="(m\d+)"', user_prompt)
        return {"explanation": " ".join(f"[{at}]" for at in told), "criterion_status": "MET"}

    chat = [{"role": "assistant", "content": f"{n} " + "word " * 400} for n in range(600)]
    with pytest.raises(GradingError, match="the passages that the judge cites do not fit"):
        Rubric.from_dict([{"requirement": "Is kind"}]).grade_sync(
            chat, PerCriterionGrader(greedy, window=7_000)
        )


def test_a_window_without_room_is_an_error_that_says_so():
    """Instructions alone fill it, so no piece could be shown."""
    with pytest.raises(GradingError) as caught:
        Rubric.from_dict([{"requirement": "Is kind"}]).grade_sync(
            "word " * 9000, PerCriterionGrader(ask, window=2_000)
        )
    assert (
        "nearly fill its window of 2,000 tokens: ask one with a larger window"
        in caught.value.report.errors["is_kind"]
    )
    with pytest.raises(ValueError, match="window is 0: give the number of tokens"):
        PerCriterionGrader(ask, window=0)


def test_the_window_is_known_by_the_name_of_the_model(monkeypatch):
    """Of providers' models; a server of one's own may be set to less, and says nothing."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "x")
    names = {
        "openai/gpt-5-mini": 272_000,
        "anthropic/claude-sonnet-5": 200_000,
        "openai/no-such": None,
    }
    names |= {"http://127.0.0.1:1/v1#gpt-5-mini": None}
    assert {name: model_of(name).inner.window for name in names} == names


def test_a_dry_run_counts_every_piece():
    """So that an estimate covers them, and the prompt that settles the criterion."""
    filler = " ".join(f"parcel {number} on the shelf" for number in range(3000))
    rubric = Rubric.from_dict([{"requirement": "Mentions the orchid"}])
    with ModelServer(lambda system, user: json.dumps(judged(user))) as server:
        grader = PerCriterionGrader(model=model_of(server.model), window=8_000)
        with dry_run() as counted, pytest.raises(GradingError):
            rubric.grade_sync(f"{filler} an orchid {filler}", grader)
        assert server.calls == 0
        rubric.grade_sync(f"{filler} an orchid {filler}", grader)
        assert counted.calls == server.calls


def test_the_command_line_takes_a_window(tmp_path, capsys):
    """For a judge at an address of one's own."""
    (tmp_path / "rubric.yaml").write_text("- requirement: Mentions the orchid\n")
    (tmp_path / "long.txt").write_text("a parcel on the shelf " * 3000 + "an orchid")
    with ModelServer(lambda system, user: json.dumps(judged(user))) as server:
        given = [
            str(tmp_path / "long.txt"),
            "-r",
            str(tmp_path / "rubric.yaml"),
            "--judge",
            server.model,
            "--no-cache",
        ]
        assert main(["grade", *given, "--window", "8000"]) == 0
        assert server.calls > 2
    assert "pieces)" in capsys.readouterr().out


# The cutting


def test_pieces_overlap_and_hold_everything():
    """Each fits, each begins with the end of the one before, small parts stay whole, and together they are all of it."""
    for seed in range(20):
        chat = conversation(seed, 60_000, 3)
        parts = [part for part in read_parts("Help", chat) if not part.in_prompt]
        room = 5_000 + 1_000 * seed
        pieces = split_into_pieces(parts, room)
        assert all(sum(size_of(span.as_part().text) for span in piece) <= room for piece in pieces)
        ends = dict.fromkeys((part.address for part in parts), 0)
        for before, piece in pairwise([None, *pieces]):
            for span in piece:
                assert span.start <= ends[span.part.address], "nothing is left out"
                ends[span.part.address] = max(ends[span.part.address], span.end)
                if size_of(span.part.text) < room / 5:
                    assert (span.start, span.end) == (0, len(span.part.text))
            if before is not None:
                again = next(span for span in before if span.part is piece[0].part)
                assert piece[0].start < again.end
        assert ends == {part.address: len(part.text) for part in parts}


def test_tokens_are_estimated_by_bytes():
    """Four to a token, so that Chinese counts for more than English of as many letters."""
    assert fits(10_000, "a" * 36_000)
    assert not fits(10_000, "a" * 36_001)
    assert fits(10_000, "字" * 12_000)
    assert not fits(10_000, "字" * 12_001)
    assert split_into_pieces([Part("m1", "text", "user", "\ud800" * 50_000, False)], 8_000)


LONG = [{"role": "assistant", "content": f"turn {n} {'word ' * 200}"} for n in range(60)]


async def test_a_criterion_about_a_step_is_asked_where_the_step_is() -> None:
    """And not of every piece; a question each, however many steps there are, leaves room for the text."""
    with ModelServer("MET") as server:
        grader = PerCriterionGrader(model=server.model, window=8000)
        rubric = Rubric([{"requirement": "The turn is polite", "scope": "step"}], judge=grader)
        [report] = await rubric.score([{"prompt": "Hello", "completion": LONG}])
    assert (report.score, len(report.lines[0].lines)) == (1.0, 60)
    for asked in server.requests:
        step = re.findall(r"\bm\d+\b", asked.user.rpartition("</response>")[2])[0]
        assert f'<turn id="{step}"' in asked.user


async def test_a_verdict_on_pieces_requires_evidence_too() -> None:
    """Pieces that agree and cite nothing give no verdict that has to be cited."""
    with ModelServer("MET") as server:
        grader = PerCriterionGrader(model=server.model, window=8000)
        rubric = Rubric([{"requirement": "It is polite", "requires_evidence": True}], judge=grader)
        [report] = await rubric.score([{"prompt": "Hello", "completion": LONG}])
    assert report.score is None
    assert "requires evidence, and it cites nothing" in str(report.errors)
