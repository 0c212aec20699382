"""The API server's messages about a webhook that it could not call."""

import pytest
from doctor_facts import HOST, SETUP, webhooks

from berthmaster.model.foreign_texts import call_failure, denying_webhook, failed_webhook
from berthmaster_cli.doctor.judge.call_failures import diagnosis_of

URL = "https://refused.no-such-host.svc:443/mutate?timeout=3s"
X509 = "tls: failed to verify certificate: x509: "


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("dial tcp: lookup berthmaster-webhook.karmada-system.svc on 10.96.0.10:53: no such host", "name"),
        ("dial tcp: lookup a.svc: i/o timeout", "name"),
        ("dial tcp 10.0.0.1:443: connect: connection refused", "closed"),
        ("dial tcp 10.0.0.1:443: i/o timeout", "late"),
        ("context deadline exceeded", "late"),
        ("net/http: request canceled (Client.Timeout exceeded while awaiting headers)", "late"),
        ("net/http: TLS handshake timeout", "late"),
        (X509 + "certificate signed by unknown authority", "authority"),
        (X509 + 'certificate signed by unknown authority (possibly because of "x509: ECDSA verification failure" '
         'while trying to verify candidate authority certificate "ca")', "authority"),
        (X509 + "certificate is valid for a.svc, not b.svc", "names"),
        (X509 + "cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs", "names"),
        (X509 + "certificate is not valid for any names, but wanted to match b.svc", "names"),
        (X509 + "certificate has expired or is not yet valid: current time 2026-01-02T00:00:00Z is after "
         "2026-01-01T00:00:00Z", "expired"),
        ("remote error: tls: certificate required", "client"),
        ("dial tcp 10.0.0.1:443: connect: no route to host", "network"),
        ("EOF", "network"),
        ("Address is not allowed", "network"),
        ("the server could not find the requested resource", "answer"),
        ("an unknown message", "call"),
    ],
)  # fmt: skip
def test_the_message_determines_the_failure(words, name):
    problem = f'failed calling webhook "w.berthmaster.io": failed to call webhook: Post "{URL}": {words}'
    found = diagnosis_of(call_failure(problem), webhooks()[0], SETUP)
    assert found.name == name
    assert f"{HOST}:443" in found.message
    assert "kubectl" in found.remedy or "helm" in found.remedy or "--admission-control-config-file" in found.remedy


def test_the_message_names_the_webhook_that_failed_or_denied():
    problem = 'Internal error occurred: failed calling webhook "a.b.io": failed to call webhook: EOF'
    assert (failed_webhook(problem), denying_webhook(problem)) == ("a.b.io", "")
    problem = 'admission webhook "a.b.io" denied the request: no'
    assert (failed_webhook(problem), denying_webhook(problem)) == ("", "a.b.io")
