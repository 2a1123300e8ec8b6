"""A server that cannot start raises an error."""

import pytest

from assay import Rubric
from assay.server import RewardServer


def test_a_server_that_cannot_start_raises_the_error():
    """The `with` block is not entered, and nothing hangs."""
    server = RewardServer(Rubric([lambda completion: 1.0]))
    server._listening.close()
    with pytest.raises(OSError, match="Bad file descriptor"), server:
        pass
