"""Score the responses to one prompt by comparing them, in pairs or all in one call."""

import math
import random
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, Signature, signature
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from assay.aggregation import group_by_key
from assay.concurrency import run_concurrently
from assay.criterion import Criterion, read_reference
from assay.errors import JudgeError
from assay.graders.columns import fill_requirement, show_reference
from assay.graders.degenerate import DEGENERATE_REASON, explain_degenerate
from assay.graders.fences import escape_turn_tags, make_tag_escaper
from assay.graders.grader import JudgeOptions, JudgeSource, grader_of, scores_from
from assay.graders.judge_input import JudgeInput, build_judge_input
from assay.graders.panel import Vote, build_vote_line, combine_votes
from assay.graders.prompt_text import system_prompt
from assay.placeholders import has_placeholders, list_paths
from assay.report import CriterionReport, Score
from assay.rollout import PLURALS, SINGULAR
from assay.types import Messages

DEFAULT_REQUIREMENT = "Answers the query better"
# What a ranking scores a response by: its rank, or the grade itself.
Pays: TypeAlias = Literal["rank", "grade"]
GRADES: Final = tuple(str(grade) for grade in range(11))  # the choices of a ranking, worst first
# The grade of a response without content: it ranks below a response with the lowest grade.
_DEGENERATE_GRADE = -1.0
# The choices of a game. They are worth 0, 0.5 and 1 to the first response.
CHOICES = ("SECOND", "TIE", "FIRST")
_OPPOSITE_CHOICES = {"FIRST": "SECOND", "SECOND": "FIRST", "TIE": "TIE"}

# A response must not contain the tags that separate it from the others.
_escape_pair_tags = make_tag_escaper("first", "second")
_escape_candidate_tags = make_tag_escaper("candidate")


class _GroupJudge(ABC):
    """A group check that compares the responses to each prompt with each other."""

    def __init__(
        self, judge: JudgeSource, prompt_name: str, requirement: str, reference: str | Sequence[str]
    ) -> None:
        """Prepare to compare responses by a requirement; the judge is told how by a prompt.

        `prompt_name` is the name of that prompt in `prompts/`. The requirement may have
        placeholders for columns, and `reference` names columns that the judge is shown. Responses
        to one prompt are compared if they have the same values in these columns.
        """
        grader = grader_of(judge)
        if grader.returns_report:
            raise ValueError(
                f"{grader.title} gives one number for a whole rubric: use a PerCriterionGrader"
            )
        instructions = system_prompt(prompt_name)

        def add_instructions(options: JudgeOptions) -> JudgeOptions:
            text = f"{instructions}\n\n{options.extra_instructions}".rstrip()
            return replace(options, extra_instructions=text)

        self.grader = grader.with_options(add_instructions)
        self.requirement = requirement
        self.reference = read_reference(reference)
        self.__signature__ = self._make_signature()

    def _make_signature(self) -> Signature:
        """Return the signature by which a rubric decides what to pass to `__call__`.

        It has the completions, the prompts, and the columns that requirement and reference name.
        """
        call_parameters = signature(_GroupJudge.__call__).parameters
        parameters = [call_parameters["completions"], call_parameters["prompts"]]
        paths = (*list_paths(self.requirement), *self.reference)
        # The column of a path such as `info.topic` is `info`. Each is named once.
        columns = dict.fromkeys(path.partition(".")[0] for path in paths)
        for column in columns:
            if column == "prompt":
                continue  # passed as `prompts` already
            name = f"{column}s" if column in SINGULAR else column
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY))
        return Signature(parameters)

    def identity_state(self) -> dict[str, Any]:
        """Return what decides the results of this check."""
        state = dict(vars(self))
        del state["__signature__"]  # computed from the rest
        return state

    async def __call__(
        self,
        completions: Sequence[Messages],
        prompts: Sequence[Messages] | None = None,
        **columns: Sequence[Any],
    ) -> list[Score]:
        """Return one score per completion, in order."""
        prompts = prompts or [""] * len(completions)
        inputs: list[JudgeInput] = []
        subjects: list[_Subject] = []
        for index, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            judge_input = build_judge_input({"prompt": prompt, "completion": completion})
            inputs.append(judge_input)
            row: dict[str, Any] = {"prompt": prompt}
            for name, values in columns.items():
                row[PLURALS.get(name, name)] = values[index]
            subjects.append(self._describe_subject(judge_input.escaped_query, row))
        indices_by_subject = group_by_key(
            ((str(prompts[index]), subject), index) for index, subject in enumerate(subjects)
        )

        async def score_prompt(indices: list[int]) -> list[Score]:
            responses = [_Response.from_input(inputs[index]) for index in indices]
            return await self._score_group(responses, subjects[indices[0]])

        groups = list(indices_by_subject.values())
        scores_by_group = await run_concurrently(score_prompt, groups)
        scores_by_index: dict[int, Score] = {}
        for indices, scores in zip(groups, scores_by_group, strict=True):
            scores_by_index.update(zip(indices, scores, strict=True))
        return [scores_by_index[index] for index in range(len(inputs))]

    def _describe_subject(self, query: str, row: Mapping[str, Any]) -> "_Subject":
        """Return what responses are compared about; raise `ColumnError` if the row lacks a column."""
        requirement = self.requirement
        if has_placeholders(requirement):
            criterion = fill_requirement(Criterion(requirement=requirement), row)
            requirement = criterion.requirement or ""
        judge_input = JudgeInput("", query=query or None, query_is_transcript=True)
        if self.reference:
            judge_input = show_reference(judge_input, self.reference, row)
        return _Subject(
            query=query,
            requirement=requirement,
            reference=judge_input.reference,
            reference_is_tagged=judge_input.reference_is_tagged,
        )

    @abstractmethod
    async def _score_group(
        self, responses: Sequence["_Response"], subject: "_Subject"
    ) -> list[Score]:
        """Return one score per response to one prompt, in order.

        In the texts and in the query, turn tags that are not ours are escaped.
        """


class _Subject(NamedTuple):
    """What responses are compared about."""

    query: str  # with turn tags escaped; empty if nothing was asked
    requirement: str  # filled with the columns of the row
    reference: str
    reference_is_tagged: bool

    def build_input(self, texts: str) -> JudgeInput:
        """Build the input for a judge that reads several responses, with tags that are ours."""
        return JudgeInput(
            texts,
            query=self.query or None,
            reference=self.reference,
            reference_is_tagged=self.reference_is_tagged,
            is_transcript=True,
            query_is_transcript=True,
            assistant_text=texts,
        )


class _Response(NamedTuple):
    """A response to compare."""

    text: str  # as the judge reads it, with tags in plain texts escaped
    problem: str | None  # why it has no content; None if it has some

    # The judge may read a whole conversation, but only what the assistant wrote is content.
    @classmethod
    def from_input(cls, judge_input: JudgeInput) -> "_Response":
        return cls(judge_input.escaped_text, explain_degenerate(judge_input.assistant_text))

    @classmethod
    def from_text(cls, text: str) -> "_Response":
        return cls.from_input(JudgeInput(text))


class Ranking(_GroupJudge):
    """A group check that grades all responses to a prompt in one call, and scores them by rank.

    The score is the share of the other responses with a lower grade; those with the same grade
    count half. With `pays="grade"` it is the grade itself, from 0 to 1, as in RULER. Responses are
    shown in an order that is drawn with `seed`. More than `most` are graded in several calls.
    """

    name = "ranking"

    def __init__(
        self,
        judge: JudgeSource,
        requirement: str = DEFAULT_REQUIREMENT,
        *,
        most: int = 16,
        seed: int = 0,
        pays: Pays = "rank",
        reference: str | Sequence[str] = (),
    ) -> None:
        """`judge` has to be a grader that asks about several criteria in one call.

        `most` is the largest number of responses in one call. `pays` says whether a response is
        scored by its rank or by its grade. `reference` names columns that the judge is shown.
        """
        if most < 2:
            raise ValueError(f"most is {most}: give at least 2")
        if pays not in get_args(Pays):
            raise ValueError(f"pays is {pays!r}: give 'rank' or 'grade'")
        grader = grader_of(judge)
        criteria_per_call = getattr(grader, "size", None)
        if criteria_per_call == 1:
            raise ValueError(
                f"{grader.title} asks once for each response: use a PerCriterionOneShotGrader"
            )
        super().__init__(grader, "listwise", requirement, reference)
        self.most = most
        self.seed = seed
        self.pays = pays

    async def _score_group(self, responses: Sequence[_Response], subject: _Subject) -> list[Score]:
        """Grade the responses to one prompt, and rank them by their grades.

        A response without content is not shown to the judge; it ranks below all others.
        """
        if len(responses) == 1:
            return [Score.not_applicable("there is no other response to compare with")]
        # By text, since equal texts are graded only once.
        scores_by_text: dict[str, Score] = {}
        grades_by_text: dict[str, float] = {}
        texts_to_grade: set[str] = set()
        for text, problem in responses:
            if problem:
                scores_by_text[text] = Score(0.0, f"{DEGENERATE_REASON}: {problem}")
                grades_by_text[text] = _DEGENERATE_GRADE
            else:
                texts_to_grade.add(text)

        batches = self._draw_batches(sorted(texts_to_grade))  # one for each call
        if batches:
            judged_scores = await self._grade_batches(batches, subject)
        else:
            # There is at most one text to grade, so no judge is asked.
            only_score = Score(1.0, "the only response that says anything")
            judged_scores = dict.fromkeys(texts_to_grade, only_score)
        for text, score in judged_scores.items():
            scores_by_text[text] = score
            if score.value is not None:  # it is None if the judge gave no grade
                grades_by_text[text] = score.value
        return self._rank(responses, scores_by_text, grades_by_text, call_count=len(batches))

    async def _grade_batches(
        self, batches: Sequence[Sequence[str]], subject: _Subject
    ) -> dict[str, Score]:
        """Grade the texts of each batch in one call; return the scores by text."""

        async def grade_batch(batch: Sequence[str]) -> dict[str, Score]:
            return await self._grade(batch, subject)

        scores_by_text: dict[str, Score] = {}
        for batch_scores in await run_concurrently(grade_batch, batches):
            scores_by_text.update(batch_scores)
        return scores_by_text

    def _draw_batches(self, texts: Sequence[str]) -> list[list[str]]:
        """Shuffle the texts, and split them into one batch per call; fewer than two need no call."""
        if len(texts) < 2:
            return []
        shuffled = list(texts)
        # The texts are part of the seed, so that each group is shuffled differently.
        random.Random(f"{self.seed} {shuffled}").shuffle(shuffled)
        batch_count = math.ceil(len(shuffled) / self.most)
        return [shuffled[start::batch_count] for start in range(batch_count)]

    async def _grade(self, texts: Sequence[str], subject: _Subject) -> dict[str, Score]:
        """Grade texts in one call; return the scores by text.

        The judge is shown all texts, and asked one criterion about each of them.
        """
        candidates: list[str] = []
        criteria: list[Criterion] = []
        for number, text in enumerate(texts, start=1):
            escaped = _escape_candidate_tags(text)
            candidates.append(f'<candidate number="{number}">\n{escaped}\n</candidate>')
            name = f"candidate {number}"
            requirement = f"How well {name} does this: {subject.requirement}"
            criteria.append(Criterion(requirement=requirement, choices=GRADES, name=name))
        judge_input = subject.build_input("\n".join(candidates))
        scores = await scores_from(self.grader, judge_input, criteria)
        return dict(zip(texts, scores, strict=True))

    def _rank(
        self,
        responses: Sequence[_Response],
        scores_by_text: Mapping[str, Score],
        grades_by_text: Mapping[str, float],
        *,
        call_count: int,
    ) -> list[Score]:
        """Return one score per response, from its rank among all grades.

        A text without a grade has a failed score, which is returned unchanged. The reasons say in
        how many calls the texts were graded.
        """
        grades = sorted(
            grades_by_text[response.text]
            for response in responses
            if response.text in grades_by_text
        )
        note = _describe_ties(grades)
        if call_count > 1:
            note += f", judged in {call_count} calls"
        scores: list[Score] = []
        for response in responses:
            score = scores_by_text[response.text]
            grade = grades_by_text.get(response.text)
            if grade is None:
                scores.append(score)  # the judge gave it no grade, and the score says why
            elif len(grades) == 1:
                error = JudgeError("none of the other responses has a grade to compare with")
                scores.append(Score.failed(error))
            else:
                scores.append(self._rank_one(score, grade, grades, note))
        return scores

    def _rank_one(self, score: Score, grade: float, grades: Sequence[float], note: str) -> Score:
        """Return the score of one response, given its grade and the sorted grades of all.

        `score` is what the judge said about it, and `note` goes into the reason.
        """
        lower_count = bisect_left(grades, grade)
        higher_count = len(grades) - bisect_right(grades, grade)
        equal_count = len(grades) - lower_count - higher_count - 1  # without itself
        value = score.value
        if self.pays == "rank":
            value = (lower_count + equal_count / 2) / (len(grades) - 1)
        reason = f"rank {higher_count + 1} of {len(grades)}; {note}. {score.reason}".rstrip()
        return score._replace(value=value, verdict=None, reason=reason)


def _describe_ties(grades: Sequence[float]) -> str:
    """Say how many pairs of responses have the same grade; nothing if there is no pair."""
    pair_count = math.comb(len(grades), 2)
    if not pair_count:
        return ""
    tie_count = sum(math.comb(count, 2) for count in Counter(grades).values())
    return f"{tie_count} of {pair_count} pairs tie ({tie_count / pair_count:.2f})"


class Tournament(_GroupJudge):
    """A group check that compares responses to a prompt in pairs, and scores them by their games.

    A win is worth 1 and a tie 0.5; the score is the mean of the games. Each pair is judged twice,
    the second time with the responses swapped; a judge that contradicts itself makes a tie. A game
    without a verdict does not count. Equal responses tie, and a response without content loses,
    without a call. A response to a prompt with no others is "not applicable".

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
        judge: JudgeSource,
        requirement: str = DEFAULT_REQUIREMENT,
        *,
        opponents: int | None = None,
        swap: bool = True,
        reference: str | Sequence[str] = (),
    ) -> None:
        """Each response is compared with about `opponents` others; None compares it with all.

        A game takes two calls, or one with `swap=False`. `reference` names columns that the judge
        is shown.
        """
        if opponents is not None and opponents < 1:
            raise ValueError(f"opponents is {opponents}: compare with at least 1, or None for all")
        super().__init__(judge, "pairwise", requirement, reference)
        self.criterion = self._make_criterion(requirement)
        self.opponents = opponents
        self.swap = swap

    def _make_criterion(self, requirement: str) -> Criterion:
        """Return the criterion that a judge is asked in a game: the better response."""
        return Criterion(
            requirement=f"The first response does this better than the second: {requirement}",
            choices=CHOICES,
            name=self.name,
        )

    async def best(
        self,
        texts: Sequence[str],
        query: str | None = None,
        row: Mapping[str, Any] | None = None,
    ) -> int:
        """Return the index of the best text; of several, the first. Raise if no game was decided.

        `row` holds the columns that the requirement and the reference name.
        """
        if len(texts) == 1:
            return 0
        responses = [_Response.from_text(text) for text in texts]
        subject = self._describe_subject(escape_turn_tags(query or ""), row or {})
        scores = await self._score_group(responses, subject)
        if all(score.value is None for score in scores):
            raise JudgeError(
                f"no game between {len(texts)} texts was decided, so there is no best text"
            )
        values = [score.value or 0.0 for score in scores]
        return values.index(max(values))

    async def compare(
        self,
        first: str,
        second: str,
        query: str | None = None,
        row: Mapping[str, Any] | None = None,
    ) -> Score:
        """Play one game: 1 if the first text is better, 0 if the second is, 0.5 for a tie.

        `row` is the same as in `best`.
        """
        responses = (_Response.from_text(first), _Response.from_text(second))
        subject = self._describe_subject(escape_turn_tags(query or ""), row or {})
        return await self._compare(*responses, subject)

    async def _compare(self, first: _Response, second: _Response, subject: _Subject) -> Score:
        """Play one game, without the judge if the responses are equal or one has no content."""
        if first.text == second.text:
            return Score(0.5, "both are the same", "TIE")
        if first.problem or second.problem:
            return _score_without_judge(first, second)

        async def ask(pair: tuple[str, str]) -> Score:
            return await self._ask(*pair, subject)

        pairs = [(first.text, second.text)]
        if self.swap:
            pairs.append((second.text, first.text))
        scores = await run_concurrently(ask, pairs)
        votes = [Vote("usual order", scores[0], sub_answer="usual_order")]
        if self.swap:
            swapped_score = _swap_sides(scores[1])
            votes.append(Vote("opposite order", swapped_score, sub_answer="opposite_order"))
        return combine_votes(self.criterion, votes, "mean", noun="orders")

    async def _ask(self, first: str, second: str, subject: _Subject) -> Score:
        """Ask the judge once which of two texts is better."""
        pair = (
            f"<first>\n{_escape_pair_tags(first)}\n</first>\n"
            f"<second>\n{_escape_pair_tags(second)}\n</second>"
        )
        criterion = self.criterion
        if subject.requirement != self.requirement:
            criterion = self._make_criterion(subject.requirement)
        judge_input = subject.build_input(pair)
        [score] = await scores_from(self.grader, judge_input, [criterion])
        return score

    async def _score_group(self, responses: Sequence[_Response], subject: _Subject) -> list[Score]:
        """Play the games between the responses to one prompt, and score each by its games."""
        texts = [response.text for response in responses]
        pairs = pair_responses(len(texts), self.opponents)
        # The first of several responses with the same text plays for all of them, so that no two
        # texts are compared twice. This list has the index of the player for each response.
        players = [texts.index(text) for text in texts]
        player_pairs = [_sort_pair(players[first], players[second]) for first, second in pairs]
        distinct_pairs = list(dict.fromkeys(player_pairs))  # in order

        async def play(pair: tuple[int, int]) -> Score:
            first, second = pair
            return await self._compare(responses[first], responses[second], subject)

        scores = await run_concurrently(play, distinct_pairs)
        # The score of each game from the point of view of a player, by player and opponent.
        scores_by_player: dict[tuple[int, int], Score] = {}
        for (first, second), score in zip(distinct_pairs, scores, strict=True):
            scores_by_player[second, first] = _swap_sides(score)
            scores_by_player[first, second] = score

        games_by_response: list[list[Vote]] = [[] for _ in responses]
        for first, second in pairs:
            for index, opponent in ((first, second), (second, first)):
                score = scores_by_player[players[index], players[opponent]]
                game = Vote(f"against {opponent + 1}", score, sub_answer="game")
                games_by_response[index].append(game)
        return [self._add_up(games) for games in games_by_response]

    def _add_up(self, games: Sequence[Vote]) -> Score:
        """Return the score of a response: the mean of its points in the games with a verdict."""
        if not games:
            return Score.not_applicable("there is no other response to compare with")
        lines = tuple(build_vote_line(self.criterion, game) for game in games)
        points = [game.score.value for game in games if game.score.value is not None]
        if not points:
            error = JudgeError(f"none of {len(games)} games was decided: {games[0].score.error}")
            return Score.failed(error)._replace(lines=lines)
        won = sum(value > 0.5 for value in points)
        lost = sum(value < 0.5 for value in points)
        tied = len(points) - won - lost
        reason = f"won {won}, tied {tied}, lost {lost}"
        if len(points) < len(games):
            reason += f"; {len(games) - len(points)} without a verdict"
        disagreements = [
            game.score.disagreement for game in games if game.score.disagreement is not None
        ]
        mean_disagreement = None
        if disagreements:
            mean_disagreement = sum(disagreements) / len(disagreements)
        return Score(sum(points) / len(points), reason, lines=lines, disagreement=mean_disagreement)


def _score_without_judge(first: _Response, second: _Response) -> Score:
    """Score a game in which a response has no content: it loses, and two of them tie."""
    if first.problem and second.problem:
        value, verdict = 0.5, "TIE"
    elif first.problem:
        value, verdict = 0.0, "SECOND"
    else:
        value, verdict = 1.0, "FIRST"
    problem = first.problem or second.problem
    return Score(value, f"{DEGENERATE_REASON}: {problem}; no judge was asked", verdict)


def pair_responses(size: int, opponents: int | None = None) -> list[tuple[int, int]]:
    """Return which of `size` responses are compared, as pairs of indices.

    With `opponents`, each is compared with its neighbours on a circle, so that all play equally
    often: half of the opponents on each side, rounded up.
    """
    largest_distance = size // 2
    if opponents is not None:
        largest_distance = min(largest_distance, math.ceil(opponents / 2))
    pairs: set[tuple[int, int]] = set()
    for index in range(size):
        for distance in range(1, largest_distance + 1):
            neighbour = (index + distance) % size
            pairs.add(_sort_pair(index, neighbour))
    return sorted(pairs)


def _sort_pair(first: int, second: int) -> tuple[int, int]:
    """Return the two indices as a pair, smaller first."""
    return min(first, second), max(first, second)


def _swap_sides(score: Score) -> Score:
    """Return the score of a game from the point of view of the other response."""
    value, verdict = _swap_answer(score)
    lines: list[CriterionReport] = []
    for line in score.lines:
        line_value, line_verdict = _swap_answer(line)
        lines.append(line.model_copy(update={"value": line_value, "verdict": line_verdict}))
    return score._replace(value=value, verdict=verdict, lines=tuple(lines))


def _swap_answer(answer: Score | CriterionReport) -> tuple[float | None, str | None]:
    """Return the value and the verdict of an answer for the other response."""
    value = None if answer.value is None else 1.0 - answer.value
    verdict = answer.verdict
    if verdict is not None:
        verdict = _OPPOSITE_CHOICES.get(verdict, verdict)
    return value, verdict
