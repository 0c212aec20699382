import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reviews import UID, admission_review

from webhook.admission.outcome import FieldProblem, ReviewOutcome
from webhook.admission.wire import NotAReview, decode, encode, encode_failure, find_uid

REVIEW = admission_review({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {}})


def changed(**fields):
    return json.dumps({**REVIEW, **fields}).encode()


@pytest.mark.parametrize(
    ("body", "message", "uid"),
    [
        pytest.param(b"", "not valid JSON", "", id="an empty body"),
        pytest.param(b"[]", "not a JSON object", "", id="a list"),
        pytest.param(b"\xff\xfe", "not valid JSON", "", id="invalid UTF-8"),
        pytest.param(b"[" * 5000, "", "", id="deeply nested"),
        pytest.param(changed(apiVersion="admission.k8s.io/v1beta1"), "v1beta1", UID, id="v1beta1"),
        pytest.param(changed(kind="Review"), "'Review'", UID, id="another kind"),
        pytest.param(changed(request=None), "request is missing", "", id="no request"),
        pytest.param(changed(request=[]), "request is missing", "", id="request is a list"),
        pytest.param(changed(request={}), "request.uid is missing", "", id="no UID"),
        pytest.param(changed(request={"uid": ""}), "request.uid is", "", id="an empty UID"),
        pytest.param(changed(request={"uid": 7}), "request.uid is", "", id="UID is a number"),
        pytest.param(changed(request={"uid": UID, "object": 3}), "malformed", UID, id="object is a number"),
        pytest.param(changed(request={"uid": UID, "dryRun": "yes"}), "malformed", UID, id="dryRun is a string"),
        pytest.param(json.dumps(REVIEW).encode()[:-9], "not valid JSON", UID, id="a truncated review"),
    ],
)
def test_an_invalid_review_is_an_error_with_its_uid(body, message, uid):
    with pytest.raises(NotAReview) as caught:
        decode(body)
    assert caught.value.status == 400
    assert message in str(caught.value)
    assert caught.value.uid == uid


HOSTILE = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), max_size=40)


@given(HOSTILE)
def test_warnings_are_those_that_api_servers_show(texts):
    problems = tuple(FieldProblem(f"spec.a[{text}]", text, "bad", "do better") for text in texts)
    response = json.loads(encode("u", ReviewOutcome(warnings=(*problems, *texts))))["response"]
    warnings = response.get("warnings", [])
    assert len(warnings) <= 24
    assert all(len(each) <= 256 and each.isprintable() for each in warnings)
    assert sum(len(each.encode()) for each in warnings) <= 4096
    assert bool(warnings) == bool(texts)


@given(HOSTILE)
def test_denials_are_printable_and_bounded(texts):
    problems = tuple(FieldProblem(f"spec.a[{text}]", text, f"bad {text}", "do better") for text in texts)
    status = json.loads(encode("u", ReviewOutcome(denials=problems)))["response"].get("status")
    lines = status["message"].splitlines() if status else []
    assert all(line.isprintable() for line in lines)
    assert len(lines) == (len(texts) + 1 if len(texts) > 1 else len(texts))


def test_an_invalid_body_costs_no_more_than_its_size():
    many = b"{}," * 10**6
    bodies = [
        b'{"x":[%b{}]}' % many,
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7,"x":[%b{}]}}' % many,
        b'{"apiVersion":"admission.k8s.io/v1","kind":[%b{}],"request":{"uid":"u"}}' % many,
    ]
    for body in bodies:
        tracemalloc.start()
        with pytest.raises(NotAReview):
            decode(body)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2 * len(body)


@given(st.text(max_size=40), st.integers(0, 400))
def test_the_uid_of_a_truncated_review_is_found(uid, cut):
    body = json.dumps({"kind": "AdmissionReview", "request": {"uid": uid, "object": {"uid": "other"}}}).encode()
    whole = len(json.dumps({"kind": "AdmissionReview", "request": {"uid": uid}})) - 2
    assert find_uid(body[: whole + cut]) in {uid, ""}
    if not any("\ud800" <= character <= "\udfff" for character in uid):
        assert find_uid(body[: whole + cut]) == uid


def test_a_denial_has_every_cause_and_no_patch():
    problems = tuple(FieldProblem(f"spec.a[{index}]", index, "bad", "do better") for index in range(3))
    response = json.loads(encode("u", ReviewOutcome(denials=problems)))["response"]
    assert response["status"]["message"].splitlines() == [
        "3 problems:",
        "- spec.a[0]: 0: bad; do better",
        "- spec.a[1]: 1: bad; do better",
        "- spec.a[2]: 2: bad; do better",
    ]
    assert [each["field"] for each in response["status"]["details"]["causes"]] == [each.path for each in problems]


def test_the_length_of_a_message_is_limited():
    problems = tuple(FieldProblem("spec." + "x" * 500, index, "bad", "do better") for index in range(1000))
    assert len(encode("u", ReviewOutcome(denials=problems))) < 100_000


def test_a_failure_is_an_admission_review():
    document = json.loads(encode_failure("u", 413, "RequestEntityTooLarge", "too much"))
    assert document["kind"] == "AdmissionReview"
    assert document["response"]["uid"] == "u"
    assert document["response"]["status"]["code"] == 413
