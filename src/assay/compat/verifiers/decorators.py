"""`verifiers.decorators`."""

from assay.envs import cleanup, stop, teardown

__all__ = ["cleanup", "stop", "teardown"]
