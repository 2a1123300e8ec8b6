"""A criterion: one weighted question about a rollout, answered by code or by a model."""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from assay.errors import RubricError
from assay.identity import UNKNOWN, get_qualified_name, identify_or_unknown
from assay.placeholders import find_column, format_column
from assay.wording import explain_first_error

BINARY_CHOICES = ("UNMET", "MET")  # the default choices
NOT_APPLICABLE = "N/A"  # the verdict of a judge for a question that does not apply
MAX_MAGNITUDE = 1e100  # the largest weight or value, so that no sum of products can overflow
DEFAULT_TIMEOUT = 5.0  # the default number of seconds that an isolated check may run

# The fields that decide the answer to a criterion, as `to_dict` names them.
_QUESTION_FIELDS = (
    "requirement",
    "check",
    "rubric",
    "choices",
    "allow_na",
    "requires_evidence",
    "reference",
    "scope",
    "combine",
    "thinking",
)


# When the judge of a rubric is asked: about every rollout, or only about those that pass all
# checks that count.
AskJudge: TypeAlias = Literal["always", "if_checks_pass"]


def read_ask_judge(value: object) -> AskJudge:
    """Return the value if it is one of `AskJudge`; raise `RubricError` if it is not."""
    for choice in get_args(AskJudge):
        if value == choice:
            return choice
    raise RubricError(f"ask_judge is {value!r}: give {' or '.join(get_args(AskJudge))}")


def read_reference(value: object) -> tuple[str, ...]:
    """Return the columns that a judge is shown; raise `RubricError` if the value is not their names."""
    columns = (value,) if isinstance(value, str) else value
    if not isinstance(columns, list | tuple) or not all(
        isinstance(column, str) for column in cast("Sequence[object]", columns)
    ):
        raise RubricError(
            f"reference is {value!r:.200}: give the name of a column, or a list of names"
        )
    try:
        return check_reference_columns(tuple(cast("Sequence[str]", columns)))
    except ValueError as error:
        raise RubricError(str(error)) from None


# A value of a column that a condition asks for.
ColumnValue: TypeAlias = str | bool | int | float


class Condition(NamedTuple):
    """A condition under which a criterion is asked: the verdict of another criterion.

    A name that the rubric has no criterion for stands for a column: see `ColumnCondition`.
    """

    # The name of the other criterion.
    criterion: str
    # The verdicts that fulfil the condition; if empty, the other criterion has to be met.
    verdicts: tuple[ColumnValue, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """A condition under which a criterion is asked: the value of a column of the row.

    >>> ColumnCondition("category", ("writing", "poetry")).holds({"category": "poetry"})
    True
    """

    column: str  # with dots an entry of it, as in `info.category`
    values: tuple[ColumnValue, ...]  # the column has one of them

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return True if the column has one of the values, or a list with one of them.

        Values are compared as texts, so that 3 is the `3` of a table. An empty cell has none of
        them. Raises `ColumnError` if the row has no such column.
        """
        content: Any = find_column(row, self.column, allow_empty=True)
        if not isinstance(content, list | tuple | set | frozenset):
            content = [content]
        texts = {_write_value(value) for value in cast("Iterable[Any]", content)}
        return any(_write_value(value) in texts for value in self.values)


def _write_value(value: Any) -> str:
    """Return a value of a column as text; tables write True in several ways."""
    text = format_column(value).strip()
    folded = text.casefold()
    return folded if folded in ("true", "false") else text


class Criterion(BaseModel):
    """One weighted question, answered either by code (`check`) or by a model (`requirement`).

    >>> Criterion(requirement="Cites a source", weight=2).name
    'cites_a_source'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    # What must hold, in words, for a model to judge.
    requirement: str | None = None
    # A function, or a whole rubric, that answers by code.
    check: Any = Field(default=None, exclude=True)
    # What a full answer adds to the sum. Negative: a fault to avoid. 0: a metric.
    weight: float = Field(default=1.0, allow_inf_nan=False, ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)
    # Its key in metrics and reports; by default derived from the check or the requirement.
    name: str = ""
    # The verdicts a judge can choose from, worst to best; the worst is worth 0 and the best 1.
    choices: tuple[str, ...] = BINARY_CHOICES
    # Whether a judge may answer that the question does not apply (`N/A`).
    allow_na: bool = False
    # A veto: if this criterion fails, the whole score is at most `cap`.
    required: bool = False
    # The highest possible score if this required criterion fails.
    cap: float = Field(default=0.0, allow_inf_nan=False, ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)
    # The lowest value that counts as met, for `required`, `when`, `all_pass` and `any_pass`.
    pass_at: float = Field(default=1.0, allow_inf_nan=False, ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)
    # Asked only if all of these conditions hold, about other criteria and about columns; otherwise
    # see `when_false`.
    when: tuple[Condition | ColumnCondition, ...] = ()
    # What a criterion is that was not asked because of its `when`: left out of the score, or
    # answered with the lowest choice.
    when_false: Literal["not_applicable", "unmet"] = "not_applicable"
    # Criteria with the same tag get a score of their own in the report.
    tags: tuple[str, ...] = ()
    # What it is asked about: the whole rollout, each assistant turn (`step`) or each tool call
    # (`call`).
    scope: Literal["rollout", "step", "call"] = "rollout"
    # How the answers about steps are combined: the lowest (`all`), the highest (`any`), their
    # mean, or the share of steps before the first failure.
    combine: Literal["all", "any", "mean", "first_failure"] = "all"
    # Which step rewards a failure lowers: those of all steps alike, or in equal shares those of
    # the steps that its reason cites.
    credit: Literal["rollout", "cited"] = "rollout"
    # Whether a judge must cite evidence for any verdict but the lowest; without it, the answer is
    # an error.
    requires_evidence: bool = False
    # The columns of the row that a judge is shown as the reference, such as `answer`.
    reference: tuple[str, ...] = ()
    # Whether a judge or a text check reads the model's reasoning; None means what the rubric says.
    thinking: Literal["hidden", "shown"] | None = None
    # Answered and shown with its weight, but not counted.
    report_only: bool = False
    # Run the check in a worker process, where it can neither hang nor crash this one.
    isolate: bool = False
    # Seconds that an isolated check may run on one rollout; then it is stopped and has no answer.
    timeout: float = Field(default=DEFAULT_TIMEOUT, allow_inf_nan=False, gt=0, le=MAX_MAGNITUDE)

    @classmethod
    def of(cls, source: object, weight: float | None = None) -> "Criterion":
        """Return a criterion made from a function, a rubric or a criterion.

        `weight`, if given, replaces the weight of the criterion.
        """
        if isinstance(source, Criterion):
            criterion = source
        elif callable(source) or is_scorer(source):
            criterion = cls(check=source)
        else:
            raise RubricError(
                f"{source!r} is not a criterion: give a function, a Criterion, a Rubric, "
                "or a mapping with 'requirement' or 'check'"
            )
        if weight is None:
            return criterion
        return criterion.with_fields(weight=weight)

    def with_fields(self, **changes: Any) -> "Criterion":
        """Return a copy with some fields changed, validated again."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        try:
            return type(self)(**(fields | changes))
        except ValidationError as error:
            _, explanation = explain_first_error(error)
            raise RubricError(f"criterion {self.name!r}: {explanation}") from None

    @property
    def judged(self) -> bool:
        """Whether a model answers, and not code."""
        return self.requirement is not None

    @property
    def may_not_apply(self) -> bool:
        """Whether `N/A` is a possible verdict."""
        return self.allow_na or (bool(self.when) and self.when_false == "not_applicable")

    @property
    def counts(self) -> bool:
        """Whether the answer can change the score: the criterion has a weight or is required."""
        if self.report_only:
            return False
        return self.weight != 0 or self.required

    @cached_property
    def values(self) -> dict[str, float]:
        """The value of each choice, evenly spaced from 0 (worst) to 1 (best)."""
        highest_rank = len(self.choices) - 1
        return {choice: rank / highest_rank for rank, choice in enumerate(self.choices)}

    @cached_property
    def verdict_conditions(self) -> tuple[Condition, ...]:
        """The conditions about other criteria."""
        return tuple(condition for condition in self.when if isinstance(condition, Condition))

    @cached_property
    def column_conditions(self) -> tuple[ColumnCondition, ...]:
        """The conditions about columns of the row."""
        return tuple(condition for condition in self.when if isinstance(condition, ColumnCondition))

    @cached_property
    def memo(self) -> dict[str, str]:
        """An empty dict in which graders cache what they derive from this criterion.

        For example, parts of prompts.
        """
        return {}

    def passes(self, value: float) -> bool:
        """Return True if the value is good.

        A value is met if it is at least `pass_at`. To be met is good for a criterion with a
        positive weight, and bad for one with a negative weight, which describes a fault.
        """
        is_met = value >= self.pass_at
        if self.weight < 0:
            return not is_met
        return is_met

    def to_dict(self) -> dict[str, Any]:
        """Return the criterion as an entry of a rubric file, without fields that have their default.

        Raises `RubricError` if the check cannot be written to a file.
        """
        return self._to_data(for_hash=False)

    @property
    def content_hash(self) -> str:
        """A SHA-256 of all fields that differ from their defaults, and of the code of its check.

        It is "unknown" if the check refers to something that cannot be identified, such as an open file.
        """
        data: dict[str, Any] = {"format": "assay.criterion/1", **self._to_data(for_hash=True)}
        if self.check is not None and not _is_fully_named(self.check, data):
            data["code"] = identify_or_unknown(self.check)
        if UNKNOWN in (data.get("code"), data.get("rubric")):
            return UNKNOWN
        return hash_json(data)

    @property
    def question_hash(self) -> str:
        """A SHA-256 of the fields that decide the answer; name and weight are not among them."""
        data = self._to_data(for_hash=True)
        question = {key: data[key] for key in _QUESTION_FIELDS if key in data}
        return hash_json({"format": "assay.question/1", **question})

    def _to_data(self, *, for_hash: bool) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as JSON values.

        With `for_hash`, a check that cannot be written to a file is identified by its qualified
        name. Without it, such a check raises `RubricError`.
        """
        data: dict[str, Any] = {}
        if self.name != _derive_name(self):
            data["name"] = self.name
        if self.check is not None:
            data |= _check_to_data(self.check, for_hash=for_hash)
        for key, field in type(self).model_fields.items():
            if key in ("name", "check", "when"):
                continue
            value = getattr(self, key)
            if value == field.default:
                continue
            if isinstance(value, tuple):
                value = list(cast("tuple[Any, ...]", value))
                if key == "reference" and len(value) == 1:
                    [value] = value
            data[key] = value
        if self.when:
            conditions = [_condition_to_data(condition) for condition in self.when]
            data["when"] = conditions[0] if len(conditions) == 1 else conditions
        return data

    @field_validator("choices", "tags", "reference", mode="before")
    @classmethod
    def _wrap_single_text(cls, value: object) -> object:
        """Accept one text for a list of one text."""
        return (value,) if isinstance(value, str) else value

    @field_validator("when", mode="before")
    @classmethod
    def _read_conditions(cls, value: object) -> object:
        """Accept the short forms in which a file can write conditions: one entry or a list.

        A value of another type is returned unchanged, for pydantic to refuse.
        """
        if value is None:
            return ()
        if isinstance(value, str | Mapping | Condition | ColumnCondition):
            return tuple(_read_when_entry(cast("object", value)))
        if not isinstance(value, list | tuple):
            return value
        conditions: list[object] = []
        for entry in cast("Sequence[object]", value):
            conditions.extend(_read_when_entry(entry))
        return tuple(conditions)

    @field_validator("weight")
    @classmethod
    def _check_weight(cls, weight: float) -> float:
        """Raise if the weight is neither 0 nor large enough to compute with."""
        # Products with a smaller weight could be rounded to 0, and quotients could overflow.
        smallest = 1 / MAX_MAGNITUDE
        if 0 < abs(weight) < smallest:
            raise ValueError(
                f"weight {weight!r} is too small: give 0 for a metric, or at least {smallest:g}"
            )
        return weight

    @field_validator("requirement")
    @classmethod
    def _check_requirement(cls, requirement: str | None) -> str | None:
        """Raise if the requirement is blank."""
        if requirement is not None and not requirement.strip():
            raise ValueError(f"requirement {requirement!r} is blank: write what must be true")
        return requirement

    @field_validator("choices")
    @classmethod
    def _check_choices(cls, choices: tuple[str, ...]) -> tuple[str, ...]:
        """Raise unless there are at least two choices, which a judge can tell apart."""
        # Labels that differ only in case or surrounding spaces count as equal.
        folded = [choice.strip().casefold() for choice in choices]
        has_duplicates = len(set(folded)) < len(folded)
        if len(choices) < 2 or has_duplicates or "" in folded:
            raise ValueError(
                f"choices are {list(choices)!r}: give at least two different labels, worst to best"
            )
        if NOT_APPLICABLE.casefold() in folded:
            raise ValueError(f"choices contain {NOT_APPLICABLE!r}: set allow_na instead")
        return choices

    @model_validator(mode="after")
    def _check_way_to_answer(self) -> "Criterion":
        """Raise unless either a check or a requirement is given, and a check can be called."""
        if self.check is None and self.requirement is None:
            raise ValueError("a criterion needs a check or a requirement: give one of them")
        if self.check is not None and self.requirement is not None:
            raise ValueError(
                "a criterion has either a check or a requirement, not both: remove one of them"
            )
        if self.check is not None and not (callable(self.check) or is_scorer(self.check)):
            raise ValueError(f"check {self.check!r} cannot be called: give a function or a rubric")
        if self.check is not None and self.requires_evidence:
            raise ValueError(
                "requires_evidence is set, but code answers this criterion: "
                "only a judge cites evidence, so remove requires_evidence"
            )
        if self.check is not None and self.reference:
            raise ValueError(
                "reference is set, but code answers this criterion: only a judge is shown a "
                "reference, so remove it; a check takes columns as arguments"
            )
        return self

    @field_validator("reference")
    @classmethod
    def _check_reference(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Raise if a column is not the name of one."""
        return check_reference_columns(columns)

    @model_validator(mode="after")
    def _check_when_false(self) -> "Criterion":
        """Refuse `when_false: unmet` where it has no effect, or where it would be credited."""
        if self.when_false == "unmet" and not self.when:
            raise ValueError(
                "when_false is 'unmet', but the criterion is always asked: "
                "give a `when`, or remove when_false"
            )
        if self.when_false == "unmet" and self.weight < 0:
            raise ValueError(
                f"when_false is 'unmet', but the weight is {self.weight:g}: a fault that was not "
                "checked would count as absent, so use not_applicable"
            )
        return self

    @model_validator(mode="after")
    def _check_scope(self) -> "Criterion":
        """Raise if `combine` or `credit` is set where it has no effect; "all" is the default."""
        if self.scope == "rollout" and self.combine != "all":
            raise ValueError(
                f"combine is {self.combine!r}, but the criterion is asked about the whole rollout: "
                "set scope to step or call"
            )
        if self.scope != "rollout" and self.credit == "cited":
            raise ValueError(
                f"credit is 'cited', but with scope {self.scope!r} every step has its own value: "
                "remove credit or scope"
            )
        return self

    @model_validator(mode="after")
    def _check_isolation(self) -> "Criterion":
        """Raise if `isolate` is set for a check that cannot be isolated, or `timeout` without it."""
        if not self.isolate and self.timeout != DEFAULT_TIMEOUT:
            raise ValueError(
                f"timeout is {self.timeout:g}, but only an isolated check can be stopped: "
                "set isolate too"
            )
        if self.isolate and self.check is None:
            raise ValueError(
                "isolate is set, but a model answers this criterion: "
                "only a function can be isolated, so remove isolate"
            )
        if self.isolate and is_scorer(self.check):
            raise ValueError(
                "isolate is set, but the check is a whole rubric: "
                "only a function can be isolated, so remove isolate"
            )
        return self

    @model_validator(mode="after")
    def _fill_in_name(self) -> "Criterion":
        """Derive the name of a criterion that was given none."""
        if not self.name:
            object.__setattr__(self, "name", _derive_name(self))  # the model is frozen
        return self


def check_reference_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that a judge is shown as the reference; raise ValueError if one is wrong."""
    for column in columns:
        if not column.strip():
            raise ValueError(f"reference has the column {column!r}: give the name of a column")
        if column.partition(".")[0] == "completion":
            raise ValueError(
                f"reference is {column!r}, which is the text to be judged: name another column"
            )
    return columns


def _read_when_entry(entry: object) -> list[object]:
    """Return the conditions that one entry of `when` stands for.

    The entry is the name of a criterion, a mapping from names to one or several verdicts, or a
    mapping with a `column` and what it `is`. Anything else is returned unchanged, for pydantic to
    accept or refuse.
    """
    if isinstance(entry, str):
        return [Condition(entry)]
    if not isinstance(entry, Mapping):
        return [entry]
    conditions: list[object] = []
    mapping = cast("Mapping[str, Any]", entry)
    if set(mapping) == {"column", "is"}:
        values = _read_values(str(mapping["column"]), mapping["is"])
        if not values:
            raise ValueError("when a column is one of no values: give `is` a value, or a list")
        return [ColumnCondition(mapping["column"], values)]
    for name, verdicts in mapping.items():
        if verdicts is None:
            conditions.append(Condition(name))
        else:
            conditions.append(Condition(name, _read_values(name, verdicts)))
    return conditions


def _read_values(name: str, values: Any) -> tuple[Any, ...]:
    """Return the verdicts or values of one condition; raise ValueError if they are neither."""
    listed = tuple(cast("Sequence[Any]", values)) if isinstance(values, list | tuple) else (values,)
    if not all(isinstance(value, str | bool | int | float) for value in listed):
        raise ValueError(f"when {name!r} is {values!r}: give a verdict, a value, or a list of them")
    return listed


def _condition_to_data(condition: Condition | ColumnCondition) -> object:
    """Return the shortest form of a condition that a file can hold."""
    if isinstance(condition, ColumnCondition):
        values = condition.values
        return {"column": condition.column, "is": values[0] if len(values) == 1 else list(values)}
    name, verdicts = condition
    if not verdicts:
        return name
    if len(verdicts) == 1:
        return {name: verdicts[0]}
    return {name: list(verdicts)}


def _derive_name(criterion: Criterion) -> str:
    """Return the name of a criterion that was given none."""
    if criterion.requirement is not None:
        return make_slug(criterion.requirement)
    if is_scorer(criterion.check):
        return str(getattr(criterion.check, "name", "") or "rubric")
    return get_check_name(criterion.check)


def _check_to_data(check: Any, *, for_hash: bool) -> dict[str, Any]:
    """Return the field of a rubric file that holds this check: `check`, or `rubric` for a rubric.

    Raises `RubricError` if the check cannot be written to a file. With `for_hash`, it is identified
    by its hash or its qualified name instead.
    """
    if is_scorer(check):
        return {"rubric": _hash_scorer(check) if for_hash else _scorer_to_data(check)}
    # A built-in check may hold a function of the caller as its option `predicate`.
    predicate = getattr(check, "predicate", None)
    if predicate is not None and not for_hash:
        get_file_reference(predicate)  # raises if a file cannot name it
    is_builtin = callable(getattr(check, "spec", None))
    if is_builtin:
        return {"check": check.spec()}
    if for_hash:
        return {"check": get_qualified_name(check)}
    return {"check": get_file_reference(check)}


def _is_fully_named(check: Any, data: Mapping[str, Any]) -> bool:
    """Return whether `data` say all about a check, so that its code need not be read.

    This is so for rubrics, which have a hash, and for built-in checks without a function of the
    caller.
    """
    if is_scorer(check):
        # The hash is not asked for again: twice per level would double the work with every level.
        return data["rubric"] != get_qualified_name(type(check))
    is_builtin = type(check).__module__.startswith("assay.") and hasattr(check, "spec")
    return is_builtin and getattr(check, "predicate", None) is None


def _scorer_to_data(scorer: Any) -> dict[str, Any]:
    """Return a rubric as data of a rubric file; raise `RubricError` if it has no criteria."""
    data: dict[str, Any] = scorer.to_dict() if hasattr(scorer, "to_dict") else {}
    if "criteria" not in data:
        raise RubricError(f"{scorer!r} cannot be written as one criterion of a file: use a Rubric")
    return data


def _hash_scorer(scorer: object) -> str:
    """Return the content hash of a rubric; the qualified name of its class if it has no hash."""
    content_hash = getattr(scorer, "content_hash", None)
    if isinstance(content_hash, str):
        return content_hash
    return get_qualified_name(type(scorer))


class Scorer(Protocol):
    """Anything that turns rollouts into reports: a rubric of this package or of another."""

    async def score(self, rollouts: Sequence[Any]) -> Any: ...


def is_scorer(thing: object) -> TypeGuard[Scorer]:
    """Return True for an object with a method `score` that cannot be called itself."""
    return not callable(thing) and callable(getattr(thing, "score", None))


def get_check_name(check: object) -> str:
    """Return the name of a check; the empty text for a lambda, which has none.

    A `partial` has the name of its function, unless its own `__name__` was set.
    """
    function: Any = check
    while _is_unnamed_partial(function):
        function = function.func
    own_name = getattr(function, "name", None)  # a built-in check has one
    if isinstance(own_name, str) and own_name:
        return own_name
    python_name = getattr(function, "__name__", None) or type(function).__name__
    if python_name == "<lambda>":
        return ""
    return str(python_name)


def _is_unnamed_partial(check: object) -> bool:
    """Whether a check is a `partial` without a `__name__` of its own."""
    return isinstance(check, partial) and "__name__" not in vars(cast("object", check))


def make_slug(requirement: str, limit: int = 48) -> str:
    """Return a requirement as a short key: its words in lower case, joined by underscores.

    A key longer than `limit` characters is cut between words.
    """
    text = requirement[:1000].casefold()
    words = " ".join(re.findall(r"\w+", text))
    if len(words) > limit:
        # One more character than allowed, in case a word ends exactly at the limit.
        whole_words = words[: limit + 1].rpartition(" ")[0]
        words = whole_words or words[:limit]
    return words.replace(" ", "_")


def get_file_reference(function: object) -> str:
    """Return the `package.module:function` by which a file can name a function.

    Raises `RubricError` if the function cannot be imported by that name.
    """
    reference = get_qualified_name(function)
    module, _, qualified_name = reference.partition(":")
    imported: object = sys.modules.get(module)
    for attribute in qualified_name.split("."):
        imported = getattr(imported, attribute, None)
    # `__main__` is a different module in every program.
    if module == "__main__" or imported != function:
        raise RubricError(
            f"{function!r} cannot be written to a file: use a built-in check, "
            "or a function that can be imported by name"
        )
    return reference


def hash_json(value: object) -> str:
    """Return the SHA-256 of a JSON value.

    The order of keys does not change the hash, and `2` and `2.0` are the same number.
    """

    def parse_number(text: str) -> float:
        """Return 2 for "2.0", and 2.5 for "2.5"."""
        number = float(text)
        return int(number) if number.is_integer() else number

    normalised = json.loads(json.dumps(value, allow_nan=False), parse_float=parse_number)
    text = json.dumps(normalised, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
