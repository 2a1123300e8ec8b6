"""Compare the responses of a group, two by two or all in one call, and give each a score by how it stands."""

import random
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from assay.aggregation import group_by_key
from assay.concurrency import run_concurrently
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.grader import Grader, scores_from
from assay.graders.judge_input import (
    DEGENERATE,
    JudgeInput,
    build_judge_input,
    degenerate,
    system_prompt,
    without_tags,
)
from assay.graders.panel import Vote, line_of_vote, outcome
from assay.report import Score
from assay.types import Messages

BETTER = "Answers the query better"  # what responses are compared by, unless said otherwise
Pays: TypeAlias = Literal["rank", "grade"]
CHOICES = ("SECOND", "TIE", "FIRST")  # worth 0, a half and 1 to the first
GRADES: Final = tuple(map(str, range(11)))  # what a ranking asks for, worst to best
_without_places = without_tags("first", "second")
_without_candidates = without_tags("candidate")
_OPPOSITE = {"FIRST": "SECOND", "SECOND": "FIRST", "TIE": "TIE"}


class _GroupJudge(ABC):
    """Scores the responses of each prompt against each other, by a grader that is told how with a prompt of its own."""

    def __init__(self, grader: Grader, words: str) -> None:
        if grader.gives_whole:
            raise ValueError(
                f"{grader.title} gives one number for a whole rubric: use a PerCriterionGrader"
            )
        told = system_prompt(words)
        self.grader = grader.with_options(
            lambda o: replace(o, examples=f"{told}\n\n{o.examples}".rstrip())
        )

    async def __call__(
        self, completions: Sequence[Messages], prompts: Sequence[Messages] | None = None
    ) -> list[Score]:
        """One score a completion, in order."""
        asked: Sequence[Messages] = prompts or [""] * len(completions)
        inputs = [
            build_judge_input({"prompt": p, "completion": c})
            for p, c in zip(asked, completions, strict=True)
        ]
        responses = [_Response.of(judge_input) for judge_input in inputs]
        groups = group_by_key((str(prompt), place) for place, prompt in enumerate(asked))

        async def judge(places: list[int]) -> dict[int, Score]:
            query = inputs[places[0]].query
            scores = await self._scores([responses[place] for place in places], query)
            return dict(zip(places, scores, strict=True))

        judged = await run_concurrently(judge, list(groups.values()))
        scores = {place: score for group in judged for place, score in group.items()}
        return [scores[place] for place in range(len(inputs))]

    @abstractmethod
    async def _scores(self, responses: Sequence["_Response"], query: str | None) -> list[Score]:
        """One score a response, from all of them."""


class _Response(NamedTuple):
    """A response to compare."""

    text: str  # as the judge reads it
    problem: str | None  # why it holds no answer; None if it may hold one

    @classmethod
    def of(cls, judge_input: JudgeInput) -> "_Response":
        return cls(judge_input.text, degenerate(judge_input.assistant_text))


class Ranking(_GroupJudge):
    """A group check: one call grades all responses of a prompt against each other, and each is scored by its rank.

    The score is the share of the others that it is graded above, a tie a half; with `pays="grade"` it is the grade from 0 to 1, as
    in RULER. Responses are shown in an order drawn by `seed`. More than `most` are graded in several calls.
    """

    name = "ranking"

    def __init__(
        self,
        grader: Grader,
        requirement: str = BETTER,
        *,
        most: int = 16,
        seed: int = 0,
        pays: Pays = "rank",
    ) -> None:
        if most < 2 or pays not in get_args(Pays):
            raise ValueError(
                f"most is {most} and pays is {pays!r}: give at least 2, and 'rank' or 'grade'"
            )
        if getattr(grader, "size", None) == 1:
            raise ValueError(
                f"{grader.title} asks once for each response: use a PerCriterionOneShotGrader"
            )
        super().__init__(grader, "listwise")
        self.requirement, self.most, self.seed, self.pays = requirement, most, seed, pays

    async def _scores(self, responses: Sequence[_Response], query: str | None) -> list[Score]:
        if len(responses) == 1:
            return [Score.not_applicable("there is no other response to compare with")]
        texts = [response.text for response in responses]
        lowest = {
            response.text: Score(0.0, f"{DEGENERATE}: {response.problem}")
            for response in responses
            if response.problem
        }
        asked = sorted(set(texts) - lowest.keys())
        random.Random(f"{self.seed} {asked}").shuffle(asked)
        calls = -(-len(asked) // self.most) if len(asked) > 1 else 0
        parts = [asked[start::calls] for start in range(calls)]
        graded = await run_concurrently(lambda part: self._grades(part, query), parts)
        known = lowest | (
            {}
            if calls
            else dict.fromkeys(asked, Score(1.0, "the only response that says anything"))
        )
        known |= {text: score for part in graded for text, score in part.items()}
        # Below every grade: a degenerate response is worse than a bad one.
        grades = {
            t: -1.0 if t in lowest else score.value
            for t, score in known.items()
            if score.value is not None
        }
        ladder = sorted(grades[text] for text in texts if text in grades)
        pairs, ties = (
            len(ladder) * (len(ladder) - 1) // 2,
            sum(n * (n - 1) // 2 for n in Counter(ladder).values()),
        )
        said = f"{ties} of {pairs} pairs tie ({ties / pairs:.2f})" if pairs else ""
        said += f", judged in {calls} calls" if calls > 1 else ""
        found: list[Score] = []
        for text in texts:
            score = known[text]
            if text in grades and pairs:
                below, up_to = bisect_left(ladder, grades[text]), bisect_right(ladder, grades[text])
                share = (below + (up_to - below - 1) / 2) / (len(ladder) - 1)
                reason = f"rank {len(ladder) - up_to + 1} of {len(ladder)}; {said}. {score.reason}".rstrip()
                score = score._replace(
                    value=share if self.pays == "rank" else score.value, verdict=None, reason=reason
                )
            elif text in grades:
                score = Score.failed(
                    JudgeError("none of the other responses has a grade to compare with")
                )
            found.append(score)
        return found

    async def _grades(self, texts: Sequence[str], query: str | None) -> dict[str, Score]:
        listed = [
            f'<candidate number="{n}">\n{_without_candidates(t)}\n</candidate>'
            for n, t in enumerate(texts, 1)
        ]
        names, asked = (
            [f"candidate {n}" for n in range(1, len(texts) + 1)],
            f"does this: {self.requirement}",
        )
        criteria = [
            Criterion(requirement=f"How well {name} {asked}", choices=GRADES, name=name)
            for name in names
        ]
        return dict(
            zip(
                texts,
                await scores_from(
                    self.grader, JudgeInput("\n".join(listed), query=query), criteria
                ),
                strict=True,
            )
        )


class Tournament(_GroupJudge):
    """A group check: a response meets the others of its prompt, and is scored by its games.

    A win is worth 1, a tie a half, and the score is the mean of the games. Each pair is judged twice, the second time with
    the places swapped; a judge that contradicts itself gives a tie. A game without a verdict does not count. Equal
    responses tie and a degenerate one loses unasked; one without others of its prompt is not applicable.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel, make_state
    >>> def longer(system, user):
    ...     first, second = user.split("<first>")[1].split("<second>")
    ...     better = "FIRST" if first.count("x") > second.count("x") else "SECOND"
    ...     return {"explanation": "it is longer", "choice": better}
    >>> rubric = Rubric([Tournament(PerCriterionGrader(FakeModel(longer)), "Says more")])
    >>> states = [make_state("x" * size) for size in (10, 90, 50)]
    >>> import asyncio
    >>> reports = asyncio.run(rubric.score_group(states))
    >>> [state["reward"] for state in states], [state["advantage"] for state in states]
    ([0.0, 1.0, 0.5], [-0.5, 0.5, 0.0])
    """

    name = "tournament"

    def __init__(
        self,
        grader: Grader,
        requirement: str = BETTER,
        *,
        opponents: int | None = None,
        swap: bool = True,
    ) -> None:
        """Each game is two calls, or one without `swap`; each response is compared with `opponents` others, or with all."""
        if opponents is not None and opponents < 1:
            raise ValueError(f"opponents is {opponents}: compare with at least 1, or None for all")
        super().__init__(grader, "pairwise")
        asked = f"The first response does this better than the second: {requirement}"
        self.criterion = Criterion(requirement=asked, choices=CHOICES, name=self.name)
        self.opponents, self.swap = opponents, swap

    async def best(self, texts: Sequence[str], query: str | None = None) -> int:
        """The place of the best text; of several, the first. Raises when no game was decided."""
        if len(texts) == 1:
            return 0
        responses = [_Response(text, degenerate(text)) for text in texts]
        values = [score.value for score in await self._scores(responses, query)]
        if not any(value is not None for value in values):
            raise JudgeError(f"no game between {len(texts)} texts was decided, so none is the best")
        return max(range(len(texts)), key=lambda place: (values[place] or 0.0, -place))

    async def compare(self, first: str, second: str, query: str | None = None) -> Score:
        """One game: 1 when the first is better, 0 when the second is, a half for a tie."""
        return await self._compare(
            _Response(first, degenerate(first)), _Response(second, degenerate(second)), query
        )

    async def _compare(self, first: _Response, second: _Response, query: str | None) -> Score:
        if first.text == second.text:
            return Score(0.5, "both are the same", "TIE")
        lost, won = first.problem, second.problem
        if lost or won:
            value = 0.5 if lost and won else float(lost is None)
            return Score(
                value, f"{DEGENERATE}: {lost or won}; no judge was asked", CHOICES[int(2 * value)]
            )
        orders = [(first.text, second.text), (second.text, first.text)][: 1 + self.swap]

        async def asked(order: tuple[str, str]) -> Score:
            one, other = map(_without_places, order)
            pair = f"<first>\n{one}\n</first>\n<second>\n{other}\n</second>"
            judge_input = JudgeInput(pair, query=query)
            [score] = await scores_from(self.grader, judge_input, [self.criterion])
            return score

        said = await run_concurrently(asked, orders)
        votes = [Vote("usual order", said[0], kind="usual_order")]
        votes += [
            Vote("opposite order", _turned(score), kind="opposite_order") for score in said[1:]
        ]
        return outcome(self.criterion, votes, "mean", noun="orders")

    async def _scores(self, responses: Sequence[_Response], query: str | None) -> list[Score]:
        texts = [response.text for response in responses]
        pairs = pairings(len(texts), self.opponents)
        # Of equal texts the first stands for all, so that no two are compared twice.
        stands = [texts.index(text) for text in texts]
        distinct = list({tuple(sorted((stands[one], stands[other]))) for one, other in pairs})

        scores = await run_concurrently(
            lambda pair: self._compare(responses[pair[0]], responses[pair[1]], query), distinct
        )
        played = dict(zip(distinct, scores, strict=True))
        games: list[list[Vote]] = [[] for _ in texts]
        for pair in pairs:
            for one, other in (pair, pair[::-1]):
                first, second = sorted((stands[one], stands[other]))
                game = played[first, second]
                own = game if stands[one] == first else _turned(game)
                games[one].append(Vote(f"against {other + 1}", own, kind="game"))
        return [self._standing(own) for own in games]

    def _standing(self, games: Sequence[Vote]) -> Score:
        if not games:
            return Score.not_applicable("there is no other response to compare with")
        lines = tuple(line_of_vote(self.criterion, game) for game in games)
        points = [game.score.value for game in games if game.score.value is not None]
        if not points:
            error = JudgeError(f"none of {len(games)} games was decided: {games[0].score.error}")
            return Score.failed(error)._replace(lines=lines)
        won, lost = sum(p > 0.5 for p in points), sum(p < 0.5 for p in points)
        reason = f"won {won}, tied {len(points) - won - lost}, lost {lost}"
        if len(points) < len(games):
            reason += f"; {len(games) - len(points)} without a verdict"
        apart = [g.score.disagreement for g in games if g.score.disagreement is not None]
        split = sum(apart) / len(apart) if apart else None
        return Score(sum(points) / len(points), reason, lines=lines, disagreement=split)


def pairings(size: int, opponents: int | None = None) -> list[tuple[int, int]]:
    """Which responses meet: all, or each its nearest on a circle, so that all play alike."""
    reach = size // 2 if opponents is None else min(size // 2, -(-opponents // 2))
    met = {
        tuple(sorted((one, (one + step) % size)))
        for one in range(size)
        for step in range(1, reach + 1)
    }
    return [(one, other) for one, other in sorted(met) if one != other]


def _turned(score: Score) -> Score:
    def other(said: Any) -> dict[str, Any]:
        value = None if said.value is None else 1.0 - said.value
        return {"value": value, "verdict": _OPPOSITE.get(said.verdict, said.verdict)}

    return score._replace(
        **other(score), lines=tuple(line.model_copy(update=other(line)) for line in score.lines)
    )
