"""What doctor says about a failed webhook call."""

from typing import Final, NamedTuple

from berthmaster.model.foreign_texts import CallFailure
from berthmaster_cli.doctor.facts import Setup, WebhookFacts


class CallDiagnosis(NamedTuple):
    """Why a webhook could not be called.

    Attributes:
        message: what is wrong; ``{host}`` is replaced by the address that the API server called.
        remedy: what to do; names in braces are filled in.
    """

    name: str
    message: str
    remedy: str


_PODS: Final = "{in_release} get pods,endpointslices -l app.kubernetes.io/component=webhook"
_RESTART: Final = "{in_release} rollout restart deploy/{release}-certs"
_FAILURES: Final = {
    CallFailure.NAME: CallDiagnosis(
        "name", "the API server cannot resolve {host}",
        "Set dnsPolicy ClusterFirstWithHostNet on the API server's pod, and the release's namespace in the name: "
        "{in_release} get service {release}-webhook"),
    CallFailure.CLOSED: CallDiagnosis(
        "closed", "nothing listens at {host}", f"Check whether the webhook's pods are ready: {_PODS}"),
    CallFailure.EXPIRED: CallDiagnosis(
        "expired", "the certificate of {host} has expired or is not valid yet",
        f"Restart the certificate rotator, and read in its log why it did not renew the certificate: {_RESTART}"),
    CallFailure.NAMES: CallDiagnosis(
        "names", "the certificate of {host} is not valid for that name",
        "Add the host to the names of the certificate: "
        "{upgrade} --set 'certificates.webhookExtraNames={{{bare}}}'"),
    CallFailure.AUTHORITY: CallDiagnosis(
        "authority", "the API server does not trust the issuer of the certificate of {host}",
        f"Restart the certificate rotator, and read in its log why it did not update caBundle: {_RESTART}"),
    CallFailure.CLIENT: CallDiagnosis(
        "client", "{host} requires a client certificate, and the API server presents none",
        "Give the API server one (--admission-control-config-file), or leave webhook.clientCA empty in the chart"),
    CallFailure.LATE: CallDiagnosis(
        "late", "{host} does not respond within timeoutSeconds",
        f"Check whether pods are overloaded, or a NetworkPolicy drops the API server's packets: {_PODS}"),
    CallFailure.NETWORK: CallDiagnosis(
        "network", "packets of the API server do not reach {host}",
        f"Allow the traffic in NetworkPolicies, firewalls and proxies: {_PODS}"),
    CallFailure.ANSWER: CallDiagnosis(
        "answer", "another service, or another release of the webhook, responds at {host}",
        "Compare the URLs with the release: {target} get mutatingwebhookconfigurations {release} -o yaml"),
    CallFailure.CALL: CallDiagnosis(
        "call", "the API server cannot call {host}", f"Check the webhook's pods and logs: {_PODS}"),
}  # fmt: skip


def diagnosis_of(failure: CallFailure, webhook: WebhookFacts, setup: Setup) -> CallDiagnosis:
    """Return what to say about a failure."""
    found = _FAILURES[failure]
    host = webhook.url.removeprefix("https://").partition("/")[0]
    names = {
        "host": host,
        "bare": host.rpartition(":")[0] or host,
        "target": setup.target,
        "in_release": setup.in_release,
        "upgrade": setup.upgrade,
        "release": setup.release,
    }
    return CallDiagnosis(found.name, found.message.format(**names), found.remedy.format(**names))
