"""Quiet: what a command prints of errors need not be said by the log as well."""

import logging
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quiet_log() -> Generator[None]:
    """Errors stand on the lines that are printed, so the log need not say them again."""
    logger = logging.getLogger("assay")
    logger.addFilter(_no)
    try:
        yield
    finally:
        logger.removeFilter(_no)


def _no(record: logging.LogRecord) -> bool:
    return False
