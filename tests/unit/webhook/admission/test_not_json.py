"""Bodies that are almost JSON: every byte of a review may be something else."""

import json

import pytest
from corrupted import PARTS, corrupted_at
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_pages import made
from reviews import FRESH_ID, admission_review

from webhook.admission.catalog import ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.karmada_reviews import KARMADA_POLICIES
from webhook.admission.large import LARGE_BYTES, review_body
from webhook.admission.settings import AdmissionSettings
from webhook.admission.wire import NotAReview

CONTEXT = AdmissionContext(AdmissionSettings(peer_checks=True), lambda: FRESH_ID)
PATHS = [path for path, route in ROUTES.items() if route.group == KARMADA_POLICIES.group and "impact" not in path]
SMALL, LARGE = "x", "x" * LARGE_BYTES


def body_of(path, filler, *, update=False):
    spec = {"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "name": "é"}], "placement": {}}
    policy = made(ROUTES[path].kind, {"metadata": {"annotations": {"filler": filler}, "name": "p"}, **spec})
    objects = (policy, policy) if update else (policy,)
    return json.dumps(admission_review(*objects), ensure_ascii=False, separators=(",", ":")).encode()


def problem_of(path, body):
    """Return why a body is an invalid request; empty if it is none."""
    try:
        return review_body(ROUTES[path], body, CONTEXT)[1].malformed
    except NotAReview as error:
        return str(error)


@given(st.sampled_from(PATHS), st.sampled_from([SMALL, LARGE]), st.booleans(), st.sampled_from(PARTS), st.data())
@settings(max_examples=400, deadline=None)
def test_no_byte_of_a_review_crashes_it(path, filler, update, part, data):
    body = body_of(path, filler, update=update)
    at = data.draw(st.integers(0, len(body) - 1) | st.integers(0, min(2000, len(body) - 1)))
    assert problem_of(path, corrupted_at(body, at, part)).isprintable()


@pytest.mark.parametrize("filler", [SMALL, LARGE], ids=["of a small one", "of a large one"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [b"filler", b"resourceSelectors", b"annotations"])
def test_a_name_that_is_not_utf_8_makes_an_invalid_request(filler, path, name):
    body = body_of(path, filler)
    assert problem_of(path, body) == ""
    assert problem_of(path, body.replace(name, name[:-1] + b"\xff"))
