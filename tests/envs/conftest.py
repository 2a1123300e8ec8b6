"""What tests of environments share: an endpoint that adds, and questions for it."""

import re

import pytest

from assay import Rubric
from assay.testing import ModelServer


def added(messages):
    """A model that adds, and is wrong about sevens."""
    numbers = [int(number) for number in re.findall(r"\d+", messages[-1]["content"])]
    return "I forget" if 7 in numbers else str(sum(numbers))


def exact(completion, answer):
    """Whether the last words are the answer."""
    said = completion if isinstance(completion, str) else completion[-1]["content"]
    return said == answer


@pytest.fixture
def questions():
    """Eight sums: 0 + 1 to 7 + 1, of which the last is answered wrongly."""
    return [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(8)]


@pytest.fixture
def rubric():
    return Rubric([exact])


@pytest.fixture
def serve():
    """Start endpoints that end with the test."""
    servers = []

    def start(answer=added, **options):
        server = ModelServer(answer, **options)
        server.__enter__()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def server(serve):
    return serve()
