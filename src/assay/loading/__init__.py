"""Rubric files to criteria and back."""

from typing import Any, Self


class Loadable:
    @classmethod
    def from_dict(cls, data: Any, **options: Any) -> Self:
        return cls(data, **options)
