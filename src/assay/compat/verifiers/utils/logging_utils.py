"""`verifiers.utils.logging_utils`."""

import logging


def setup_logging(level: str = "INFO") -> None:
    """Show our log lines from this level on, on standard error."""
    logger = logging.getLogger("assay")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level.upper())
