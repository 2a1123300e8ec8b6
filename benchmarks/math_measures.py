"""The five measures of `math.py`, by name."""

from math_found import Found as Found
from math_found import Measure as Measure
from math_hostile import measure_hostile
from math_rates import measure_rates
from math_steadiness import measure_load, measure_loop, measure_replacement

MEASURES = (
    Measure("rates", measure_rates),
    Measure("loop", measure_loop),
    Measure("replacement", measure_replacement),
    Measure("load", measure_load),
    Measure("hostile", measure_hostile),
)
