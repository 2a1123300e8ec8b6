"""Measure how well a judge agrees with people and with itself, and how well people agree with each other.

The agreement between people is the ceiling: a judge cannot be expected to agree with people more
than they agree with each other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean, multimode
from typing import Literal, TypeAlias, cast

from assay.aggregation import group_by_key
from assay.criterion import NOT_APPLICABLE
from assay.report import Score
from assay.runs import Run
from assay.runs.row import Key, Row
from assay.trust.coefficients import AnswerPair, AnswerUnit, Measures, measure
from assay.trust.estimate import Estimate, Record
from assay.trust.labels import Joined, Label, LabelledItem, join
from assay.trust.paired_runs import pair_runs
from assay.trust.questions import Answer, Question, RepeatKind, find_repeats, questions_of
from assay.trust.selection import JudgedRollout, LabelSelection, find_selection, read_judged_rollout

# What a judge is compared with: each person, or the majority of them.
Reference: TypeAlias = Literal["each", "majority"]


class CriterionAgreement(Record):
    """How far a judge agrees with people on one criterion or on all, and people with each other."""

    name: str
    judge: Measures
    # One rater in the place of the judge, against the others; without pairs if no rollout was
    # labelled twice.
    people: Measures
    labelled: int = 0  # rollouts with a label
    unanswered: int = 0  # labelled rollouts without an answer of the judge; in none of the figures
    ties: int = 0  # labelled rollouts without a majority, because people are split


class RaterAgreement(Record):
    """How far the judge agrees with one person, and that person with the others."""

    rater: str
    labels: int
    judge: Measures
    others: Measures


class Consistency(Record):
    """How far a judge agrees with itself. `accuracy` is the share of answers that stayed the same."""

    overall: Measures
    criteria: Mapping[str, Measures]
    unanswered: int = 0  # questions that the judge did not answer; in none of the figures


class Agreement(Record):
    """Whether a judge can replace people: how far it agrees with them, and they with each other."""

    # All criteria with choices together. Criteria that are answered by numbers are left out.
    overall: CriterionAgreement
    criteria: tuple[CriterionAgreement, ...]
    raters: tuple[RaterAgreement, ...]
    reference: Reference = "each"
    # Each judge of a panel against people.
    members: Mapping[str, Measures] = field(default_factory=dict[str, Measures])
    # The judge against itself in the opposite order; None if it was not asked in both orders.
    swap: Consistency | None = None
    # The judge against itself when asked again; None if it was asked once.
    retest: Consistency | None = None
    # How often the judge gave no answer, by reason.
    errors: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels left out because they are about another wording, by criterion.
    other_wording: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels left out because the run does not have their text, by rollout.
    changed_text: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels left out because they do not fit, by what is wrong with them.
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    moved: int = 0  # labels whose text is in another row than when they were made
    by_row_number: int = 0  # labels that were matched by the number of their row alone
    # Ways in which the labelled rollouts differ from the others, and what follows from them.
    selection: tuple[LabelSelection, ...] = ()
    rollouts: int | None = None  # rollouts of the run; None if the run is not known
    labelled_rollouts: int = 0  # those of them with a label


def agree(
    run: Run,
    labels: Sequence[Label],
    *,
    again: Run | None = None,
    reference: Reference = "each",
    skip_unknown: bool = False,
    any_wording: bool = False,
) -> Agreement:
    """Measure how far the judge of a run agrees with people, on every criterion and overall.

    `again` is a second run on the same rollouts. It shows whether the judge gives the same answers
    again. The figures describe the run if the labelled rollouts were drawn at random; `selection`
    holds what speaks against that.
    """
    questions = questions_of(run)
    labelled_names = {label.criterion for label in labels}
    repeats = Repeats(questions)
    judged: list[JudgedRollout] = []

    def read_rows() -> Iterator[Row]:
        """Yield the rows for `join`, and collect repeated answers and judged rollouts on the way.

        So the run is read only once.
        """
        for row in run.rows():
            repeats.add_row(row)
            judged.append(read_judged_rollout(row, labelled_names))
            yield row

    joined = join(
        read_rows(), questions, labels, skip_unknown=skip_unknown, any_wording=any_wording
    )
    if again is not None:
        for pair in pair_runs(run, again).answers:
            repeats.add_answers(pair.example, pair.criterion, (pair.before, pair.after))
    agreement = agreement_of(joined, reference=reference, repeats=repeats)
    labelled_keys = list_labelled_keys(joined)
    selection = find_selection(judged, questions, labelled_keys)
    labelled_rollouts = set[Key]().union(*labelled_keys.values())
    return replace(
        _withhold_selected_figures(agreement, selection),
        selection=selection,
        rollouts=len(judged),
        labelled_rollouts=len(labelled_rollouts),
    )


def list_labelled_keys(joined: Joined) -> dict[str, set[Key]]:
    """Return the keys of the labelled rollouts, by criterion."""
    keys: dict[str, set[Key]] = {}
    for item in joined.items:
        keys.setdefault(item.criterion, set()).add((item.example, item.sample))
    return keys


# Figures that follow from the selection alone if all labelled rollouts have one verdict of the
# judge: whatever people said, kappa is 0 and recall is 0 or 1.
_NEED_ALL_VERDICTS = (
    "recall",
    "kappa",
    "linear_kappa",
    "quadratic_kappa",
    "matthews",
    "nominal_alpha",
    "ordinal_alpha",
    "interval_alpha",
)


def _withhold_selected_figures(
    agreement: Agreement, selections: Sequence[LabelSelection]
) -> Agreement:
    """Remove figures that say nothing, because only one verdict of the judge was labelled.

    The overall figures lose them if all criteria do.
    """
    # Criteria of which some verdicts were never labelled.
    selection_by_criterion = {
        selection.criterion: selection for selection in selections if selection.unlabelled_verdicts
    }
    criteria: list[CriterionAgreement] = []
    withheld = 0  # criteria that lose figures
    for criterion in agreement.criteria:
        selection = selection_by_criterion.get(criterion.name)
        if selection is None or not _has_one_verdict(criterion.judge):
            criteria.append(criterion)
            continue
        criteria.append(_withhold_figures(criterion, selection))
        withheld += 1
    overall = agreement.overall
    if withheld and withheld == len(criteria):
        overall = _withhold_figures(overall, next(iter(selection_by_criterion.values())))
    return replace(agreement, criteria=tuple(criteria), overall=overall)


def _has_one_verdict(measures: Measures) -> bool:
    """Whether the judge gave the same verdict to all labelled rollouts."""
    if measures.confusion is None:
        return False
    # The columns of the table are the judge's verdicts.
    columns = zip(*measures.confusion.counts, strict=True)
    verdict_count = sum(any(column) for column in columns)
    return verdict_count == 1


def _withhold_figures(
    criterion: CriterionAgreement, selection: LabelSelection
) -> CriterionAgreement:
    """Replace the figures of a criterion that need labels of all verdicts by the reason for that."""
    verdicts = " or ".join(selection.unlabelled_verdicts)
    no_figure = Estimate(reason=f"no rollout that the judge called {verdicts} was labelled")
    judge = replace(criterion.judge, **dict.fromkeys(_NEED_ALL_VERDICTS, no_figure))
    return replace(criterion, judge=judge)


def agreement_of(
    joined: Joined, *, reference: Reference = "each", repeats: "Repeats | None" = None
) -> Agreement:
    """Measure the agreement of labels that are joined with the judge's answers already.

    >>> from assay.trust import Joined, LabelledItem, Question
    >>> answers = [("MET", "MET"), ("MET", "UNMET"), ("UNMET", "UNMET"), ("UNMET", "UNMET")]
    >>> items = [
    ...     LabelledItem(str(number), 0, "polite", people={"ann": label}, judge=verdict)
    ...     for number, (label, verdict) in enumerate(answers)
    ... ]
    >>> agreement = agreement_of(Joined(tuple(items), {"polite": Question("polite")}))
    >>> agreement.overall.judge.accuracy.value, agreement.overall.judge.kappa.value
    (0.75, 0.5)
    """
    items_by_criterion = group_by_key((item.criterion, item) for item in joined.items)
    questions = [joined.questions[name] for name in joined.questions if name in items_by_criterion]
    criteria: list[CriterionAgreement] = []
    for question in questions:
        meter = _AgreementMeter(question.choices, ranked=True, reference=reference)
        criteria.append(meter.measure_criterion(question.name, items_by_criterion[question.name]))
    choices, ranked = pool_choices(question for question in questions if question.choices)
    overall_meter = _AgreementMeter(choices, ranked=ranked, reference=reference)
    items = [item for item in joined.items if joined.questions[item.criterion].choices]
    raters = sorted({rater for item in items for rater in item.people})
    error_counts = Counter(item.error for item in joined.items if item.error)
    return Agreement(
        overall=overall_meter.measure_criterion("overall", items),
        criteria=tuple(criteria),
        raters=tuple(overall_meter.measure_rater(rater, items) for rater in raters),
        reference=reference,
        members=overall_meter.measure_members(items),
        swap=repeats.measure("swap") if repeats else None,
        retest=repeats.measure("retest") if repeats else None,
        errors=dict(error_counts.most_common()),
        other_wording=joined.other_wording,
        changed_text=joined.changed_text,
        skipped=joined.skipped,
        moved=joined.moved,
        by_row_number=joined.by_row_number,
    )


def pool_choices(questions: Iterable[Question]) -> tuple[tuple[str, ...], bool]:
    """Return the choices of several questions together, and whether they run from worst to best.

    They do only if all questions have the same choices.
    """
    scales = list(dict.fromkeys(question.choices for question in questions))
    if len(scales) == 1:
        return scales[0], True
    all_choices = dict.fromkeys(choice for scale in scales for choice in scale)
    return tuple(all_choices), False


@dataclass(frozen=True)
class _AgreementMeter:
    """Measures the agreement of answers on one scale."""

    choices: tuple[str, ...]
    ranked: bool  # whether the choices run from worst to best
    reference: Reference

    def measure_criterion(self, name: str, items: Sequence[LabelledItem]) -> CriterionAgreement:
        """Measure how far the judge agrees with people on these items, and people with each other.

        `name` is that of the criterion.
        """
        judge_pairs: list[AnswerPair] = []  # the judge's answer with one of people
        people_pairs: list[AnswerPair] = []  # the answers of two people, or of one and the others
        people_units: list[AnswerUnit] = []  # all answers of people to one item
        unanswered = 0
        ties = 0
        for item in items:
            answers = list(item.people.values())
            if item.judge is None:
                unanswered += 1
            else:
                judge_pairs += self._pair_answer(item.example, item.judge, answers)
            has_majority = consensus(answers) is not None
            if self.reference == "majority" and not has_majority:
                ties += 1
            people_pairs += self._pair_people(item)
            if len(answers) > 1:
                people_units.append(AnswerUnit(item.example, answers))
        return CriterionAgreement(
            name=name,
            judge=self._measure(judge_pairs),
            people=self._measure(
                people_pairs,
                units=people_units,
                # Of two raters, either may take the place of the judge; a majority may not.
                symmetric=self.reference == "each",
            ),
            labelled=len(items),
            unanswered=unanswered,
            ties=ties,
        )

    def measure_rater(self, rater: str, items: Sequence[LabelledItem]) -> RaterAgreement:
        """Measure how far the judge agrees with one person, and that person with the others."""
        judge_pairs: list[AnswerPair] = []
        other_pairs: list[AnswerPair] = []
        labels = 0
        for item in items:
            if rater not in item.people:
                continue
            labels += 1
            answer = item.people[rater]
            if item.judge is not None:
                judge_pairs.append(AnswerPair(item.example, people=answer, judge=item.judge))
            others = [item.people[other] for other in item.people if other != rater]
            other_pairs += self._pair_answer(item.example, answer, others)
        return RaterAgreement(
            rater=rater,
            labels=labels,
            judge=self._measure(judge_pairs),
            others=self._measure(other_pairs),
        )

    def measure_members(self, items: Sequence[LabelledItem]) -> dict[str, Measures]:
        """Measure how far each judge of a panel agrees with people."""
        pairs: dict[str, list[AnswerPair]] = {}
        for item in items:
            for name, answer in item.members.items():
                people = list(item.people.values())
                member_pairs = pairs.setdefault(name, [])
                member_pairs += self._pair_answer(item.example, answer, people)
        return {name: self._measure(member_pairs) for name, member_pairs in pairs.items()}

    def _pair_people(self, item: LabelledItem) -> Iterator[AnswerPair]:
        """Yield pairs of answers as if each rater in turn were the judge of the others.

        If people are compared one by one, each two raters are paired once.
        """
        if self.reference == "each":
            answers = [item.people[rater] for rater in sorted(item.people)]
            for first, second in combinations(answers, 2):
                yield AnswerPair(item.example, people=first, judge=second)
            return
        for rater, answer in item.people.items():
            others = [item.people[other] for other in item.people if other != rater]
            yield from self._pair_answer(item.example, answer, others)

    def _pair_answer(
        self, example: str, answer: Answer, people: Sequence[Answer]
    ) -> Iterator[AnswerPair]:
        """Pair an answer with the answer of each person, or with that of the majority of them.

        It is paired with nothing if there is no majority.
        """
        if self.reference == "each":
            for other in people:
                yield AnswerPair(example, people=other, judge=answer)
            return
        majority = consensus(people)
        if majority is not None:
            yield AnswerPair(example, people=majority, judge=answer)

    def _measure(
        self,
        pairs: Sequence[AnswerPair],
        *,
        units: Sequence[AnswerUnit] | None = None,
        symmetric: bool = False,
    ) -> Measures:
        """Return the measures of these pairs on the scale of this meter; see `measure`."""
        return measure(pairs, self.choices, ranked=self.ranked, units=units, symmetric=symmetric)


def consensus(answers: Sequence[Answer]) -> Answer | None:
    """Return the answer of the majority: the most frequent choice, or the mean of numbers.

    None if two choices are equally frequent, or if there are no answers.
    """
    if answers and not any(isinstance(answer, str) for answer in answers):
        return fmean(cast("Sequence[float]", answers))
    most_frequent = multimode(answers)
    return most_frequent[0] if len(most_frequent) == 1 else None


def average_answers(question: Question, answers: Sequence[Answer]) -> Answer:
    """Return the mean answer of people: a choice if the mean is the value of one, else a number.

    It is `N/A` if most people said so. Where people are split, the mean lies between the choices,
    so these rollouts, which are the hard ones, are not left out.
    """
    values: list[float] = []
    for answer in answers:
        value = question.get_value(answer)
        if value is not None:  # `N/A` has no value
            values.append(value)
    most_said_not_applicable = 2 * len(values) < len(answers)
    if not values or most_said_not_applicable:
        return NOT_APPLICABLE
    mean = fmean(values)
    return question.find_choice(mean) or mean


class Repeats:
    """Collects the answers of a judge that was asked the same question several times.

    The kinds are `swap` (asked in both orders) and `retest` (asked again).
    """

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self._questions = questions
        # By kind and criterion: how often each example got each sequence of answers. Counting takes
        # little memory, because even large runs have few different answers.
        self._counts: dict[RepeatKind, dict[str, Counter[tuple[str, tuple[Answer, ...]]]]] = {
            "swap": {},
            "retest": {},
        }
        self._unanswered: Counter[RepeatKind] = Counter()

    def add_row(self, row: Row) -> None:
        """Add the answers of a row to questions that its judge was asked several times."""
        scores = row.report.answers
        if scores is not None:
            # Most runs have no repeated answers. That is faster to see here than on the lines,
            # which would have to be built.
            has_votes = any(isinstance(score, Score) and score.lines for score in scores)
            if not has_votes:
                return
        for line in row.report.lines:
            is_judged = line.requirement is not None
            if line.name not in self._questions or not is_judged:
                continue
            question = self._questions[line.name]
            for kind, votes in find_repeats(line):
                answers = [question.read_answer(vote) for vote in votes]
                self.add_answers(row.example, question.name, answers, kind)

    def add_answers(
        self,
        example: str,
        criterion: str,
        answers: Sequence[Answer | None],
        kind: RepeatKind = "retest",
    ) -> None:
        """Add the answers of one judge that was asked the same question several times.

        An answer is None if the judge gave none. `kind` says how the judge was asked again: in the
        opposite order (`swap`), or in the same way (`retest`).
        """
        known_answers = tuple(answer for answer in answers if answer is not None)
        self._unanswered[kind] += len(answers) - len(known_answers)
        if len(known_answers) > 1:
            counts = self._counts[kind].setdefault(criterion, Counter())
            counts[example, known_answers] += 1

    def measure(self, kind: RepeatKind) -> Consistency | None:
        """Measure how far the judge agrees with itself; None if it was not asked in this way.

        The kind is `swap`, for the opposite order, or `retest`.
        """
        names = list(self._counts[kind])
        if not names:
            return None
        names_with_choices = [name for name in names if self._questions[name].choices]
        return Consistency(
            overall=self._measure_criteria(kind, names_with_choices),
            criteria={name: self._measure_criteria(kind, [name]) for name in names},
            unanswered=self._unanswered[kind],
        )

    def _measure_criteria(self, kind: RepeatKind, names: Sequence[str]) -> Measures:
        """Measure the agreement between the answers to these criteria together."""
        units: list[AnswerUnit] = []
        pairs: list[AnswerPair] = []
        for name in names:
            for (example, answers), times in self._counts[kind][name].items():
                units.append(AnswerUnit(example, answers, times))
                for first, second in combinations(answers, 2):
                    pairs.append(AnswerPair(example, people=first, judge=second, times=times))
        choices, ranked = pool_choices(self._questions[name] for name in names)
        return measure(pairs, choices, ranked=ranked, units=units, symmetric=True)
