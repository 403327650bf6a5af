"""The interface, asked at random by what its own description promises."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
OPERATIONS = [
    ("/models", "GET"), ("/models/{name}", "GET"), ("/models/{name}/predict", "POST"),
    ("/models/{name}/curve", "POST"), ("/models/{name}/plan", "POST"), ("/fit", "POST"),
    ("/jobs", "GET"), ("/jobs/{job_id}", "GET"), ("/jobs/{job_id}", "DELETE"),
    ("/health", "GET"), ("/metrics", "GET"),
]  # fmt: skip


@pytest.fixture(scope="session")
def description(server):
    """The description of a running server."""
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


#: Only where there is something to get wrong.
ASKED = [(path, method, GenerationMode.POSITIVE) for path, method in OPERATIONS]
ASKED += [
    (path, method, GenerationMode.NEGATIVE) for path, method in OPERATIONS if method == "POST"
]


@pytest.mark.parametrize(("path", "method", "mode"), ASKED)
def test_no_request_is_a_mistake_of_the_server(server, description, path, method, mode):
    operation = description[path][method]

    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    def ask(case, is_known):
        if is_known and "name" in case.path_parameters:
            case.path_parameters["name"] = "sort"  # else all that is seen is a missing model
        case.call_and_validate(base_url=server.url, checks=CHECKS)

    ask()
    assert server.client.get("/health").json()["status"] == "ok"


def test_nothing_is_left_out(description):
    found = {(o.ok().path, o.ok().method.upper()) for o in description.get_all_operations()}
    assert found == set(OPERATIONS)
