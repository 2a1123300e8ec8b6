"""Make Python search less often for unused objects that refer to each other."""

import gc
from typing import Final

NEW_OBJECTS: Final = 2_000  # as Python itself does from 3.14 on; before that, it is 700


def collect_garbage_less_often() -> None:
    """Let this process search for garbage only after every 2,000 new objects.

    For processes of assay itself: the command line, workers and servers. A library must not change
    the process that uses it. Rollouts and reports are many objects, and nearly all are freed without
    that search, which would take a tenth of the time of cheap checks. A larger number would save
    little more, and keep the texts of rollouts in memory if a check leaves them in such objects.
    """
    gc.set_threshold(NEW_OBJECTS)
