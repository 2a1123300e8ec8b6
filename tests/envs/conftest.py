"""A model server that adds numbers, and questions for it."""

import re

import pytest

from assay import Rubric
from assay.testing import ModelServer


def add_numbers(messages):
    """Answer as a model that adds, and fails if a number is 7."""
    numbers = [int(number) for number in re.findall(r"\d+", messages[-1]["content"])]
    return "I forget" if 7 in numbers else str(sum(numbers))


def exact(completion, answer):
    """Return whether the last message is the answer."""
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return text == answer


@pytest.fixture
def questions():
    """Eight sums, 0 + 1 to 7 + 1, the last of which is answered wrongly."""
    return [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(8)]


@pytest.fixture
def rubric():
    return Rubric([exact])


@pytest.fixture
def serve():
    """Start model servers that stop at the end of the test."""
    servers = []

    def start(answer=add_numbers, **options):
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
