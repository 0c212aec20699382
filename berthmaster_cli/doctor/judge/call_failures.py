"""Why an API server could not call a webhook, out of its own words, and what to do about it.

The words are Go's ``net``, ``crypto/tls`` and ``crypto/x509``, wrapped by the API server's webhook client.
"""

import re
from typing import Final, NamedTuple

from berthmaster_cli.doctor.facts import Hook, Setup


class Cause(NamedTuple):
    """A cause.

    Attributes:
        name: what findings call it.
        told: a sentence about it; ``{host}`` is whom the API server called.
        remedy: what to do; names in braces are filled in.
    """

    name: str
    told: str
    remedy: str


_PODS: Final = "{in_release} get pods,endpointslices -l app.kubernetes.io/component=webhook"
_CERTS: Final = "{in_release} rollout restart deploy/{release}-certs"
_CALLED: Final = re.compile(r'failed calling webhook "([^"]+)"')
_DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied the request')
_CAUSES: Final = (
    (r"lookup \S+.*(?:no such host|server misbehaving|i/o timeout)|no such host", Cause(
        "name", "the API server cannot resolve {host}",
        "Let the API server's pod resolve it (dnsPolicy ClusterFirstWithHostNet, the release's namespace in the "
        "name): {in_release} get service {release}-webhook")),
    (r"connection refused", Cause(
        "closed", "nobody listens at {host}", f"See whether the webhook's pods are ready: {_PODS}")),
    (r"certificate has expired or is not yet valid", Cause(
        "expired", "the certificate that {host} shows has expired, or is not valid yet",
        "Let the keeper of certificates renew it, and read in its log why it had not: " + _CERTS)),
    (r"certificate is (?:not )?valid for|doesn't contain any IP SANs|not valid for any names", Cause(
        "names", "the certificate that {host} shows is not for that name",
        "Name that host among those of the certificate: "
        "{upgrade} --set 'certificates.webhookExtraNames={{{bare}}}'")),
    (r"signed by unknown authority|unknown certificate authority|x509: ", Cause(
        "authority", "the API server does not trust who signed the certificate of {host}",
        "Let the keeper of certificates put its bundle into caBundle, and read in its log why it had not: " + _CERTS)),
    (r"certificate required|bad certificate|unknown certificate", Cause(
        "client", "{host} wants a client certificate that the API server does not show",
        "Give the API server one (--admission-control-config-file), or leave webhook.clientCA empty in the chart")),
    (r"context deadline exceeded|i/o timeout|Client.Timeout|TLS handshake timeout|request did not complete", Cause(
        "late", "{host} does not answer within timeoutSeconds",
        f"See whether pods are overloaded, or a NetworkPolicy drops the API server's packets: {_PODS}")),
    (r"no route to host|network is unreachable|connection reset|EOF|proxyconnect|Address is not allowed", Cause(
        "network", "the API server's packets do not reach {host}",
        f"Let the API server reach it (NetworkPolicy, firewall, proxy): {_PODS}")),
    (r"could not find the requested resource|404|expected webhook response|500|unable to parse|invalid", Cause(
        "answer", "what answers at {host} is not the webhook, or not of this release",
        "Compare the URLs with the release: {target} get mutatingwebhookconfigurations {release} -o yaml")),
)  # fmt: skip
_OTHER: Final = Cause(
    "call", "the API server cannot call {host}", f"See the webhook's logs: {_PODS}"
)  # fmt: skip


def called(problem: str) -> str:
    """The name of the webhook that could not be called; empty if that is not what a refusal is about."""
    found = _CALLED.search(problem)
    return found[1] if found else ""


def denied_by(problem: str) -> str:
    """The name of the webhook that refused; empty if none did."""
    found = _DENIED.search(problem)
    return found[1] if found else ""


def known(name: str, hook: Hook, setup: Setup) -> Cause:
    """The cause of a name."""
    return _filled(next(cause for _, cause in _CAUSES if cause.name == name), hook, setup)


def cause_of(problem: str, hook: Hook, setup: Setup) -> Cause:
    """The cause that the API server's words stand for."""
    # What a URL holds must not decide: a host may be called anything.
    words = re.sub(r'Post "[^"]*"', "", problem)
    return _filled(next((cause for pattern, cause in _CAUSES if re.search(pattern, words)), _OTHER), hook, setup)


def _filled(found: Cause, hook: Hook, setup: Setup) -> Cause:
    host = hook.url.removeprefix("https://").partition("/")[0]
    names = {
        "host": host,
        "bare": host.rpartition(":")[0] or host,
        "target": setup.target,
        "in_release": setup.in_release,
        "upgrade": setup.upgrade,
        "release": setup.release,
    }
    return Cause(found.name, found.told.format(**names), found.remedy.format(**names))
