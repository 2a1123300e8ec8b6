"""One entry of a rubric file to one criterion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import ValidationError

from assay.checks import check_of
from assay.criterion import Criterion, Scorer, is_scorer
from assay.errors import RubricError, RubricFileError
from assay.loading.code import function_of, is_reference
from assay.loading.source import Place
from assay.wording import did_you_mean, first_error, short_repr

FIELDS: Final = (*Criterion.model_fields, "rubric")
"""Every key that an entry may have."""

_WAYS: Final = ("requirement", "check", "rubric")


@dataclass(frozen=True, slots=True)
class Entry:
    """One criterion as it stands in a file."""

    place: Place
    label: str
    """What an error about it begins with."""
    tags: tuple[str, ...] = ()
    """The titles of the sections it stands in."""

    def criterion(self, nested: Callable[[Place, str], Scorer], *, allow_code: bool) -> Criterion:
        """The criterion. `nested` makes the rubric that stands under `rubric`."""
        if not self.place.is_mapping:
            raise self.error(f"expected a dictionary, and this is {short_repr(self.place.data)}")
        given: dict[Any, Any] = dict(self.place.data)
        self._refuse_keys(given)
        self._refuse_kinds(given)
        if "check" in given:
            given["check"] = self._check(given["check"], allow_code)
        if "rubric" in given:
            given["check"] = nested(self.place.at("rubric"), self.label)
            given.setdefault("name", getattr(given["check"], "name", "") or "rubric")
            del given["rubric"]
        try:
            criterion = Criterion.model_validate(given)
        except ValidationError as error:
            field, sentence = first_error(error)
            raise self.error(sentence, field) from None
        if not self.tags:
            return criterion
        return criterion.with_fields(tags=tuple(dict.fromkeys((*self.tags, *criterion.tags))))

    def error(self, message: str, field: str = "") -> RubricFileError:
        return self.place.error(f"{self.label}: {message}", field)

    def _refuse_keys(self, given: Mapping[Any, Any]) -> None:
        for key, value in given.items():
            if key not in FIELDS:
                raise self.error(
                    f"{short_repr(key)} is no field: {did_you_mean(key, FIELDS)}", str(key)
                )
            if value is None:
                raise self.error(f"{key} is empty: give it a value, or leave it out", key)
        ways = [way for way in _WAYS if way in given]
        if len(ways) != 1:
            raise self.error(
                f"a criterion has exactly one of requirement, check and rubric, and this one has "
                f"{' and '.join(ways) or 'none of them'}",
                ways[-1] if ways else "",
            )

    def _refuse_kinds(self, given: Mapping[str, Any]) -> None:
        """Refuse what pydantic would take for a number or a bool, and a writer hardly means."""
        for key, value in given.items():
            field = Criterion.model_fields.get(key)
            kind = None if field is None else field.annotation
            if kind is float and isinstance(value, bool):
                raise self.error(f"{key} is {value}: give a number", key)
            if kind is bool and not isinstance(value, bool):
                raise self.error(f"{key} is {short_repr(value)}: give true or false", key)

    def _check(self, spec: Any, allow_code: bool) -> Any:
        if callable(spec) or is_scorer(spec):
            return spec
        try:
            if isinstance(spec, str) and is_reference(spec):
                return function_of(spec, allow_code=allow_code)
            return check_of(cast("object", spec))
        except RubricError as error:
            raise self.error(str(error), "check") from error
