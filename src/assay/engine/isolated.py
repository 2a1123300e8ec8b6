"""Run a check in a worker process, as if it were an async function here."""

from typing import Any

from assay.call import Call
from assay.criterion import Criterion
from assay.errors import MissingExtraError, RubricError
from assay.report import Score


def isolated(call: Call, criterion: Criterion) -> Call:
    """The same call, made in a worker of the shared pool; what goes wrong there is a failed score.

    The check is packed here and now, so that one which cannot be sent is refused at construction.
    """
    # Late, since a rubric that isolates nothing needs none of it.
    from assay.isolation import shared_pool
    from assay.isolation.packing import packed
    from assay.isolation.protocol import readable

    readable(Score)

    if call.is_group:
        raise RubricError(
            f"criterion {criterion.name!r} scores a whole group, and only a check of single "
            "rollouts can be isolated: drop `isolate`"
        )
    check, seconds = call.function, criterion.timeout
    try:
        home = packed(check).home
    except (TypeError, MissingExtraError) as error:
        raise RubricError(f"criterion {criterion.name!r} cannot be isolated: {error}") from error
    preload = (home,) if home else ()

    async def checked(*args: Any, **keywords: Any) -> Any:
        pool = shared_pool(*preload)
        outcome = await pool.run(check, *args, timeout=seconds, keywords=keywords)
        return outcome.value if outcome.ok else Score.failed(outcome.message)

    call.function = checked
    call.is_async = True
    call.by_position = False  # by name, so that an error can say which argument cannot be sent
    return call
