"""The server against its own OpenAPI document: whatever the document allows or forbids, it is true."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from assay.server.app import PROTOCOLS
from assay.server.openapi import describe_api

KEY = "s3cret"
pytestmark = pytest.mark.slow

FUZZED = settings(
    max_examples=15,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def fuzzed(running_kind, tmp_path_factory):
    """A server whose rubric has an answer for whatever a client may send."""
    path = tmp_path_factory.mktemp("fuzzed") / "rubric.yaml"
    path.write_text("- check: {max_words: 100}\n- check: {contains: a}\n")
    server = running_kind(path, key=KEY)
    yield server
    said = server.stop()
    assert "Traceback" not in said


schema = schemathesis.openapi.from_dict(describe_api(PROTOCOLS, needs_key=True))
schema.config.generation.update(modes=list(schemathesis.GenerationMode))


@schema.parametrize()
@FUZZED
def test_the_document_is_true(fuzzed, case):
    """Statuses, types, bodies and headers are as it says, for good requests and for bad ones."""
    excluded = []
    if case.path in ("/openrlhf", "/verify"):
        # That lists are of one length, a query begins with its prompt, and a model said something, no
        # schema can say.
        excluded = [schemathesis.checks.positive_data_acceptance]
    case.call_and_validate(
        base_url=fuzzed.url, headers={"Authorization": f"Bearer {KEY}"}, excluded_checks=excluded
    )
