"""The server is tested against its own OpenAPI document with generated requests."""

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
def fuzzed_server(server_process_class, tmp_path_factory):
    """A server whose rubric can score anything that a client may send."""
    path = tmp_path_factory.mktemp("fuzzed") / "rubric.yaml"
    path.write_text("- check: {max_words: 100}\n- check: {contains: a}\n")
    server = server_process_class(path, key=KEY)
    yield server
    standard_error = server.stop()
    assert "Traceback" not in standard_error


schema = schemathesis.openapi.from_dict(describe_api(PROTOCOLS, needs_key=True))
schema.config.generation.update(modes=list(schemathesis.GenerationMode))


@schema.parametrize()
@FUZZED
def test_responses_conform_to_the_openapi_document(fuzzed_server, case):
    """Statuses, types, bodies and headers are checked for valid and invalid requests."""
    excluded = []
    if case.path in ("/openrlhf", "/verify"):
        # A schema cannot express that lists have equal length, that a query begins with its prompt, and
        # that there is some model output.
        excluded = [schemathesis.checks.positive_data_acceptance]
    case.call_and_validate(
        base_url=fuzzed_server.url,
        headers={"Authorization": f"Bearer {KEY}"},
        excluded_checks=excluded,
    )
