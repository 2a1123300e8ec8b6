"""Solutions that tell two equations apart: a point that satisfies one and surely not the other."""

from flint import acb, fmpq

from assay.math.balls import Point, TooLargeError, UndefinedError, ball, is_real
from assay.math.finding import Finding, different
from assay.math.numbers import points, shown
from assay.math.tree import Node, Relation, Sum, negated, symbols_of

_PRECISION = 128


def told_apart(one: Relation, two: Relation) -> Finding | None:
    """A finding when some solution of the first equation is none of the second; None when none was found."""
    names = sorted(symbols_of(one))
    for name in names:
        for point in points(names, 3):
            try:
                solution = _solved(_residual(one), name, point)
                if solution is None:
                    break
                left = ball(_residual(two), {**point, name: solution}, _PRECISION)
            except (UndefinedError, TooLargeError):
                continue
            if is_real(left) and not left.overlaps(acb(0)):
                return different(f"only one holds at {name} = {shown(solution)}")
    return None


def _residual(relation: Relation) -> Node:
    return Sum((relation.sides[0], negated(relation.sides[1])))


def _solved(residual: Node, name: str, point: Point) -> acb | None:
    """Where the residual is 0, if it is a straight line in this variable; None if it is not."""
    at = [ball(residual, {**point, name: fmpq(place)}, _PRECISION) for place in (0, 1, 2, 7)]
    slope = at[1] - at[0]
    if slope.overlaps(acb(0)) or not all(map(is_real, at)):
        return None
    if not (at[0] + slope * 2).overlaps(at[2]) or not (at[0] + slope * 7).overlaps(at[3]):
        return None
    solution = -at[0] / slope
    # The residual is a line as far as four points show; that this is a solution is what counts.
    return (
        solution if ball(residual, {**point, name: solution}, _PRECISION).overlaps(acb(0)) else None
    )
