"""The cause of a failed webhook call, found in the API server's error message.

The messages are those of Go's ``net``, ``crypto/tls`` and ``crypto/x509``, wrapped by the API server's webhook client.
"""

import re
from typing import Final, NamedTuple

from berthmaster_cli.doctor.facts import Setup, WebhookFacts


class CallFailure(NamedTuple):
    """Why a webhook could not be called.

    Attributes:
        name: the suffix of the finding's check.
        message: what is wrong; ``{host}`` is replaced by the address that the API server called.
        remedy: what to do; names in braces are filled in.
    """

    name: str
    message: str
    remedy: str


_PODS: Final = "{in_release} get pods,endpointslices -l app.kubernetes.io/component=webhook"
_RESTART: Final = "{in_release} rollout restart deploy/{release}-certs"
_CALLED: Final = re.compile(r'failed calling webhook "([^"]+)"')
_DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied the request')
_FAILURES: Final = (
    (r"lookup \S+.*(?:no such host|server misbehaving|i/o timeout)|no such host", CallFailure(
        "name", "the API server cannot resolve {host}",
        "Set dnsPolicy ClusterFirstWithHostNet on the API server's pod, and the release's namespace in the name: "
        "{in_release} get service {release}-webhook")),
    (r"connection refused", CallFailure(
        "closed", "nothing listens at {host}", f"Check whether the webhook's pods are ready: {_PODS}")),
    (r"certificate has expired or is not yet valid", CallFailure(
        "expired", "the certificate of {host} has expired or is not valid yet",
        f"Restart the certificate rotator, and read in its log why it did not renew the certificate: {_RESTART}")),
    (r"certificate is (?:not )?valid for|doesn't contain any IP SANs|not valid for any names", CallFailure(
        "names", "the certificate of {host} is not valid for that name",
        "Add the host to the names of the certificate: "
        "{upgrade} --set 'certificates.webhookExtraNames={{{bare}}}'")),
    (r"signed by unknown authority|unknown certificate authority|x509: ", CallFailure(
        "authority", "the API server does not trust the issuer of the certificate of {host}",
        f"Restart the certificate rotator, and read in its log why it did not update caBundle: {_RESTART}")),
    (r"certificate required|bad certificate|unknown certificate", CallFailure(
        "client", "{host} requires a client certificate, and the API server presents none",
        "Give the API server one (--admission-control-config-file), or leave webhook.clientCA empty in the chart")),
    (r"context deadline exceeded|i/o timeout|Client.Timeout|TLS handshake timeout|request did not complete",
     CallFailure(
        "late", "{host} does not respond within timeoutSeconds",
        f"Check whether pods are overloaded, or a NetworkPolicy drops the API server's packets: {_PODS}")),
    (r"no route to host|network is unreachable|connection reset|EOF|proxyconnect|Address is not allowed", CallFailure(
        "network", "packets of the API server do not reach {host}",
        f"Allow the traffic in NetworkPolicies, firewalls and proxies: {_PODS}")),
    (r"could not find the requested resource|404|expected webhook response|500|unable to parse|invalid", CallFailure(
        "answer", "another service, or another release of the webhook, responds at {host}",
        "Compare the URLs with the release: {target} get mutatingwebhookconfigurations {release} -o yaml")),
)  # fmt: skip
_OTHER: Final = CallFailure("call", "the API server cannot call {host}", f"Check the webhook's pods and logs: {_PODS}")


def failed_webhook(problem: str) -> str:
    """Return the name of the webhook that an error message says could not be called; empty if there is none."""
    found = _CALLED.search(problem)
    return found[1] if found else ""


def denying_webhook(problem: str) -> str:
    """Return the name of the webhook that an error message says denied the request; empty if there is none."""
    found = _DENIED.search(problem)
    return found[1] if found else ""


def named_failure(name: str, webhook: WebhookFacts, setup: Setup) -> CallFailure:
    """Return the failure of a name."""
    return _filled(next(failure for _, failure in _FAILURES if failure.name == name), webhook, setup)


def failure_of(problem: str, webhook: WebhookFacts, setup: Setup) -> CallFailure:
    """Return the failure that an API server's error message describes."""
    # The URL is removed: a host may have any name.
    words = re.sub(r'Post "[^"]*"', "", problem)
    found = next((failure for pattern, failure in _FAILURES if re.search(pattern, words)), _OTHER)
    return _filled(found, webhook, setup)


def _filled(found: CallFailure, webhook: WebhookFacts, setup: Setup) -> CallFailure:
    host = webhook.url.removeprefix("https://").partition("/")[0]
    names = {
        "host": host,
        "bare": host.rpartition(":")[0] or host,
        "target": setup.target,
        "in_release": setup.in_release,
        "upgrade": setup.upgrade,
        "release": setup.release,
    }
    return CallFailure(found.name, found.message.format(**names), found.remedy.format(**names))
