"""What names a data set in a mixture."""

from dataclasses import dataclass


@dataclass
class DatasetSpec:
    name: str
    weight: float
    config: dict
