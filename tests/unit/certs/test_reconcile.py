"""Reconciliation of missing, damaged, expired and provided certificates."""

import base64
from datetime import timedelta

import pytest
from certified import (
    AUTHORITY,
    CONFIGURATIONS,
    DAY,
    LEAVES,
    NAMESPACE,
    OPTIONS,
    START,
    TARGETS,
    Installation,
    injected_in,
    reasons,
)  # fmt: skip
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from fake_clock import FakeClock
from faults import nothing, only, refuse
from tables import cases

from berthmaster.model.errors import ApiError, InputError
from certs.authority import BACKDATING, issue, new_authority
from certs.bundle import Bundle
from certs.certificate import names_of
from certs.leaf import LeafRequirements, leaf_finding, serves
from certs.options import CertificateOptions, Origin, ServingCertificate
from certs.ownership import REGISTERED_BY
from certs.secrets import ROLE
from certs.steps import CertificateVerdict

WEBHOOK = LEAVES["webhook-tls"]
HOOKS = CONFIGURATIONS[TARGETS[0]]
FIRST_WRITES = ["BundleMissing"] * 3 + ["LeafMissing"] * 2


@pytest.fixture
def settled():
    """Return an installation some hours after its first reconciliation."""
    installation = Installation()
    installation.reconcile()
    installation.advance(timedelta(hours=5))
    return installation


def edit(path, **data):

    def change(content):
        for name, value in data.items():
            content["data"][name.replace("_", ".")] = base64.b64encode(value).decode()

    return lambda installation: installation.cluster.change(path, change)


def delete(path):
    return lambda installation: installation.cluster.remove(path)


def edit_bundle(text):
    def change(content):
        content["webhooks"][1]["clientConfig"]["caBundle"] = base64.b64encode(text).decode()

    return lambda installation: installation.cluster.change(HOOKS, change)


def replace_pair(life):
    """Return a function that stores a leaf of another authority."""
    other = new_authority("other", 1000 * DAY, START)
    leaf = issue(other, "x", ["webhook.system.svc", "10.0.0.1"], life, START)
    return edit(WEBHOOK, tls_crt=leaf.certificate_pem, tls_key=leaf.key_pem, ca_crt=b"")


def assert_settled(installation):
    """Check that nothing is due, and that leaves and bundles match the authority."""
    assert installation.reconcile() == []
    now, issuer = installation.clock.now(), installation.issuer().certificate
    for serving in OPTIONS.serving:
        required = LeafRequirements(serving.names, OPTIONS.leaf_lifetime)
        assert leaf_finding(installation.leaf(serving.secret), issuer, required, now) is None
    assert installation.injected() == {installation.bundle().pem}
    assert {installation.bundle(path) for path in LEAVES.values()} == {installation.bundle()}


def test_the_first_reconciliation_writes_everything_in_a_safe_order():
    installation = Installation()
    assert installation.reconcile() == ["AuthorityMissing", *FIRST_WRITES]
    assert_settled(installation)
    secret = installation.cluster.objects[WEBHOOK]
    assert secret["type"] == "kubernetes.io/tls"
    assert secret["metadata"]["labels"][ROLE] == "serving"
    assert set(installation.cluster.objects[AUTHORITY]["data"]) == {"tls.crt", "tls.key", "ca.crt"}


def test_empty_secrets_are_filled_without_the_right_to_create_any():
    installation = Installation()
    for path in (AUTHORITY, *LEAVES.values()):
        role = "authority" if path == AUTHORITY else "serving"
        metadata = {"name": path.rpartition("/")[2], "namespace": NAMESPACE, "labels": {ROLE: role}}
        installation.cluster.put(path, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    installation.cluster.before = only(refuse(403, "Forbidden"), "POST", part="/secrets")
    assert installation.reconcile() == ["AuthorityMissing", *FIRST_WRITES]
    assert_settled(installation)


def test_a_missing_secret_that_may_not_be_created_is_a_problem_with_a_remedy():
    installation = Installation()
    installation.cluster.before = only(refuse(403, "Forbidden", message="no"), "POST", part="/secrets")
    [problem] = installation.replica().reconcile().problems
    assert problem == "no; create a Secret ca without data, as the chart does at an installation or upgrade"


def test_issued_certificates_have_the_documented_properties():
    installation = Installation()
    installation.reconcile()
    leaf, issuer = installation.leaf().certificate, installation.issuer().certificate
    assert names_of(leaf) == {"webhook.system.svc", "10.0.0.1"}
    extensions = leaf.extensions
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert leaf.not_valid_before_utc == START - BACKDATING
    assert leaf.not_valid_after_utc == START + OPTIONS.leaf_lifetime
    subject_key = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    for certificate in (leaf, issuer):
        authority_key = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert authority_key.key_identifier == subject_key


@cases(
    ("damage", "expected"),
    {
        "a serving Secret was deleted": (delete(WEBHOOK), ["LeafMissing"]),
        "a key was overwritten": (edit(WEBHOOK, tls_key=b"garbage"), ["KeyDoesNotMatch"]),
        "a certificate was overwritten": (edit(WEBHOOK, tls_crt=b"garbage"), ["LeafUnreadable"]),
        "the bundle beside a leaf was overwritten": (edit(WEBHOOK, ca_crt=b"garbage"), ["BundleOutdated"]),
        "a leaf of another authority was stored": (replace_pair(90 * DAY), ["BundleOutdated", "WrongIssuer"]),
        "a configuration's bundle was emptied": (edit_bundle(b"# nothing\n"), ["BundleMissing"]),
        "the authority's own bundle was emptied": (edit(AUTHORITY, ca_crt=b""), ["BundleEdited"]),
        "nothing happened": (lambda _: None, []),
    },
)
def test_damage_is_repaired_at_once(settled, damage, expected):
    damage(settled)
    assert settled.reconcile() == expected
    assert_settled(settled)


def test_a_foreign_authority_leaves_the_bundle_after_the_overlap(settled):
    foreign = new_authority("foreign", 99 * DAY, START).certificate_pem
    edit(AUTHORITY, ca_crt=settled.bundle().pem + foreign)(settled)
    done = settled.settle()
    assert "PredecessorRetired" in done
    assert len(settled.bundle()) == 1
    assert_settled(settled)


@cases(
    "damage",
    {
        "deleted": delete(AUTHORITY),
        "its key is garbage": edit(AUTHORITY, tls_key=b"garbage"),
        "its certificate is garbage": edit(AUTHORITY, tls_crt=b"garbage", ca_crt=b"garbage"),
        "its key belongs to another authority": edit(AUTHORITY, tls_key=new_authority("x", DAY, START).key_pem),
    },
)
def test_a_lost_authority_is_replaced_with_overlap(settled, damage):
    before = settled.leaf()
    lost = settled.issuer().certificate
    damage(settled)
    assert settled.reconcile()[-1] == "SuccessorIntroduced"
    assert settled.leaf() == before
    assert lost in settled.bundle()
    done = settled.settle()
    assert done.index("SuccessorTakesOver") < done.index("WrongIssuer") < done.index("PredecessorRetired")
    assert lost not in settled.bundle()
    assert_settled(settled)


@cases("loses_authority", {"the authority is stored": False, "the authority is lost": True})
@cases("with_leaf", {"beside our leaf": False, "beside its own leaf": True})
def test_an_authority_that_only_a_leafs_secret_names_is_never_trusted(settled, loses_authority, with_leaf):
    foreign = new_authority("foreign", 1000 * DAY, START)
    leaf = issue(foreign, "x", ["webhook.system.svc", "10.0.0.1"], 90 * DAY, START)
    pair = {"tls_crt": leaf.certificate_pem, "tls_key": leaf.key_pem} if with_leaf else {}
    edit(WEBHOOK, ca_crt=settled.bundle().pem + foreign.certificate_pem, **pair)(settled)
    if loses_authority:
        delete(AUTHORITY)(settled)
    for _ in range(6):
        settled.reconcile()
        trusted = [settled.bundle(), *(Bundle.parse(each) for each in settled.injected())]
        assert not any(foreign.certificate in each for each in trusted)
        settled.advance(OPTIONS.overlap)
    assert_settled(settled)


def test_a_lost_authority_is_not_replaced_while_the_bundle_of_a_client_is_unreadable(settled):
    before = settled.leaf()
    delete(AUTHORITY)(settled)
    settled.cluster.before = only(refuse(503), "GET", part="webhookconfigurations")
    assert not settled.replica().reconcile().done, "it is unknown whether the present leaf serves"
    settled.cluster.before = nothing
    assert settled.reconcile()[0] == "AuthorityMissing"
    assert settled.leaf() == before
    settled.settle()
    assert_settled(settled)


def test_a_new_authority_issues_at_once_if_a_leaf_no_longer_serves(settled):
    delete(AUTHORITY)(settled)
    edit(WEBHOOK, tls_key=b"garbage")(settled)
    assert "KeyDoesNotMatch" in settled.reconcile()
    assert_recovers(settled)


def assert_recovers(installation):
    now, issuer = installation.clock.now(), installation.issuer().certificate
    assert all(serves(installation.leaf(name), issuer, now) for name in LEAVES)
    installation.settle()
    assert_settled(installation)


def empty(*paths):
    """What remains of Secrets that a tool replaced by their manifests."""

    def change(installation):
        for path in paths:
            installation.cluster.change(path, lambda content: content.pop("data"))

    return change


@cases(
    "loss",
    {
        "deleted": lambda installation: [delete(path)(installation) for path in (AUTHORITY, *LEAVES.values())],
        "replaced by empty ones": empty(AUTHORITY, *LEAVES.values()),
        "one leaf and the authority": empty(AUTHORITY, WEBHOOK),
    },
)
def test_servers_that_still_present_a_lost_leaf_are_trusted_for_one_overlap(settled, loss):
    presented = settled.leaf().certificate
    loss(settled)
    done = settled.reconcile()
    assert "LeafMissing" in done or "LeafUnreadable" in done
    for bundle in map(Bundle.parse, settled.injected()):
        assert bundle.verifies(presented, settled.clock.now())
        assert bundle.verifies(settled.leaf().certificate, settled.clock.now())
    settled.advance(OPTIONS.overlap - timedelta(seconds=1))
    settled.reconcile()
    assert all(Bundle.parse(each).verifies(presented, settled.clock.now()) for each in settled.injected())
    settled.settle()
    assert not any(Bundle.parse(each).issuer_of(presented) for each in settled.injected())
    assert_settled(settled)


def test_an_expired_authority_is_replaced_at_once_even_if_a_leaf_is_valid_for_longer(settled):
    old = settled.issuer()
    careless = type(old)(new_authority("x", 9000 * DAY, START).certificate, old.key)
    leaf = issue(careless, "x", ["webhook.system.svc", "10.0.0.1"], 5000 * DAY, START)
    edit(WEBHOOK, tls_crt=leaf.certificate_pem, tls_key=leaf.key_pem)(settled)
    settled.advance(OPTIONS.authority_lifetime)
    assert settled.reconcile()[0] == "AuthorityExpired"
    assert old.certificate not in settled.bundle()
    assert_recovers(settled)


def test_an_overdue_rotation_still_overlaps(settled):
    settled.advance(OPTIONS.authority_lifetime * 0.7)
    assert settled.reconcile()[:2] == ["AuthorityDueForRotation", "BundleOutdated"]
    assert_recovers(settled)


@pytest.mark.parametrize("years", [-30, -1, 1, 30])
def test_a_replica_with_a_wrong_clock_writes_nothing(settled, years):
    clock = FakeClock.at(settled.clock.now() + timedelta(days=365 * years))
    assert reasons(settled.replica(clock=clock).reconcile()) == []
    assert settled.reconcile() == []


def test_the_local_clock_is_used_without_the_right_to_create_events(settled):
    def refuse_dry_runs(request):
        if "dryRun" in dict(request.query):
            raise ApiError(403, "Forbidden", "no")

    settled.cluster.before = refuse_dry_runs
    settled.advance(60 * DAY)
    assert settled.reconcile() == ["LeafDueForRenewal"] * 2


def test_changed_names_replace_the_leaf(settled):
    serving = (ServingCertificate("webhook-tls", ("webhook.system.svc", "new.example")), *OPTIONS.serving[1:])
    assert reasons(settled.replica(serving=serving).reconcile()) == ["NamesMissing"]
    assert names_of(settled.leaf().certificate) == {"webhook.system.svc", "new.example"}


@cases("path", {"the Secret of the authority": AUTHORITY, "a serving Secret": WEBHOOK})
def test_a_foreign_secret_is_not_overwritten(path):
    installation = Installation()
    data = {name: base64.b64encode(b"precious").decode() for name in ("tls.crt", "tls.key")}
    name = path.rpartition("/")[2]
    installation.cluster.put(path, {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data})
    with pytest.raises(InputError, match=f"{NAMESPACE}/{name} holds") as error:
        installation.reconcile()
    assert "precious" not in str(error.value)
    assert installation.data(path)["tls.key"] == b"precious"


def test_an_authority_that_a_user_stored_is_adopted():
    installation = Installation()
    pair = new_authority("brought", 400 * DAY, START)
    data = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem}
    content = {"metadata": {"name": "ca"}, "data": {name: base64.b64encode(pem).decode() for name, pem in data.items()}}
    content["metadata"]["namespace"] = NAMESPACE
    installation.cluster.put(AUTHORITY, content)
    assert installation.reconcile() == ["BundleEdited", *FIRST_WRITES]
    assert installation.issuer().certificate == pair.certificate
    assert_settled(installation)


def test_an_unreachable_target_blocks_takeovers_but_not_renewals(settled):
    settled.cluster.before = only(refuse(503, "Unavailable", message="away"), "GET", part=HOOKS)
    report = settled.replica().reconcile(renew_leaves=True, rotate_authority=True)
    assert report.problems == ("away",)
    done = [str(finding.reason) for _, finding in report.done]
    assert done.count("RenewalRequested") == 2
    assert "SuccessorIntroduced" not in done
    settled.advance(DAY)
    settled.replica().reconcile()
    assert len(settled.bundle()) == 2
    settled.cluster.before = nothing
    settled.settle()
    assert_settled(settled)


def test_a_forbidden_write_is_reported_and_the_others_are_done(settled):
    settled.cluster.before = only(refuse(403, "Forbidden", message="not yours"), "PATCH", part=WEBHOOK)
    report = settled.replica().reconcile(renew_leaves=True)
    assert report.problems == ("not yours",)
    assert [about.name for about, _ in report.done] == ["extender-tls"]
    assert ("Warning", "Secret/webhook-tls", "RenewalRequested") in settled.recorder.events


def test_conflicting_writes_are_repeated(settled):
    """Another client changes the Secret before each of the first writes."""
    edits = iter(range(5))

    def interfere(request):
        if request.path == WEBHOOK and request.method == "PATCH" and next(edits, None) is not None:
            settled.cluster.change(WEBHOOK, lambda content: content["metadata"].update(annotations={"by": "other"}))

    settled.cluster.before = interfere
    assert sorted(settled.reconcile(renew_leaves=True)) == ["RenewalRequested"] * 2
    assert settled.recorder.counts.count(("RenewalRequested", "overtaken")) == 5
    assert_settled(settled)


def test_endless_conflicts_are_a_problem(settled):
    def interfere(request):
        if request.path == WEBHOOK and request.method == "PATCH":
            settled.cluster.change(WEBHOOK, lambda content: content["metadata"].update(annotations={"by": "other"}))

    settled.cluster.before = interfere
    report = settled.replica().reconcile(renew_leaves=True)
    assert "other clients keep writing" in report.problems[0]


def test_a_missing_configuration_is_not_a_problem(settled):
    settled.cluster.remove(HOOKS)
    assert settled.reconcile() == []
    settled.cluster.put(HOOKS, {"metadata": {"name": "hooks"}, "webhooks": [{"name": "a", "clientConfig": {}}]})
    assert settled.reconcile() == ["BundleMissing"]


def register_by(owner):
    def change(content):
        content["metadata"].setdefault("labels", {})[REGISTERED_BY] = owner

    return change


@cases("origin", {"issued certificates": Origin.OWN, "provided certificates": Origin.PROVIDED})
def test_a_configuration_of_another_installation_is_not_written(settled, origin):
    theirs = new_authority("theirs", 900 * DAY, START).certificate_pem
    edit_bundle(theirs)(settled)
    settled.cluster.change(HOOKS, register_by("other.berthmaster"))
    before = settled.cluster.objects[HOOKS]
    report = settled.replica(origin=origin, registered_by="system.berthmaster").reconcile()
    [problem] = report.problems
    assert "MutatingWebhookConfiguration hooks: RegisteredByAnother: other.berthmaster registered it" in problem
    assert settled.cluster.objects[HOOKS] == before
    about = "MutatingWebhookConfiguration/hooks"
    assert ("Warning", about, "RegisteredByAnother") in settled.recorder.events
    assert ("RegisteredByAnother", "refused") in settled.recorder.counts
    [bad] = [each for each in report.certificates.items() if each.verdict is CertificateVerdict.BAD]
    assert (bad.name, bad.reason) == (about, "RegisteredByAnother")


def test_a_configuration_of_another_installation_delays_no_rotation(settled):
    settled.cluster.change(HOOKS, register_by("other.berthmaster"))
    before, foreign = settled.issuer(), settled.cluster.objects[HOOKS]
    settled.replica().reconcile(rotate_authority=True)
    for _ in range(6):
        settled.advance(OPTIONS.overlap)
        settled.replica().reconcile()
    assert settled.issuer() != before
    assert len(settled.bundle()) == 1
    assert settled.cluster.objects[HOOKS] == foreign


def test_our_own_configuration_is_written(settled):
    settled.cluster.change(HOOKS, register_by("system.berthmaster"))
    edit_bundle(b"")(settled)
    assert reasons(settled.replica(registered_by="system.berthmaster").reconcile()) == ["BundleMissing"]


def test_only_our_secrets_are_deleted(settled):
    foreign = f"/api/v1/namespaces/{NAMESPACE}/secrets/foreign"
    settled.cluster.put(foreign, {"metadata": {"name": "foreign", "namespace": NAMESPACE}, "data": {}})
    replica = settled.replica(
        serving=(*OPTIONS.serving, ServingCertificate("foreign", ("a",)), ServingCertificate("gone", ("a",)))
    )
    assert list(replica.delete_secrets()) == ["webhook-tls", "extender-tls", "ca"]
    assert [path for path in settled.cluster.objects if "/secrets/" in path] == [foreign]


class TestProvided:
    """Another system stores the certificates. Only bundles are copied."""

    @pytest.fixture
    def provided(self):
        installation = Installation(CertificateOptions(NAMESPACE, "ca", OPTIONS.serving, TARGETS, Origin.PROVIDED))
        self.first = new_authority("cert-manager", 900 * DAY, START)
        for name in LEAVES:
            self.store(installation, name, self.first)
        return installation

    def store(self, installation, name, authority):
        leaf = issue(authority, "x", ["a"], DAY, installation.clock.now() + BACKDATING)
        data = {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem, "ca.crt": authority.certificate_pem}
        content = {"metadata": {"name": name, "namespace": NAMESPACE}}
        content["data"] = {field: base64.b64encode(pem).decode() for field, pem in data.items()}
        installation.cluster.put(LEAVES[name], content)

    def test_the_provided_bundle_is_injected_and_nothing_else_is_written(self, provided):
        assert provided.reconcile() == ["BundleMissing"] * 3
        assert provided.injected() == {self.first.certificate_pem}
        assert {request.path for request in provided.writes()} == set(CONFIGURATIONS.values())

    def test_the_previous_authority_stays_trusted_during_the_overlap(self, provided):
        provided.reconcile()
        provided.advance(DAY)
        second = new_authority("cert-manager", 900 * DAY, provided.clock.now())
        for name in LEAVES:
            self.store(provided, name, second)
        assert provided.reconcile() == ["BundleOutdated"] * 3
        both = {second.certificate_pem + self.first.certificate_pem}
        assert provided.injected() == both
        provided.advance(OPTIONS.overlap)
        provided.reconcile()
        assert provided.injected() == {second.certificate_pem}

    def test_a_missing_provided_secret_is_a_problem(self, provided):
        provided.cluster.remove(WEBHOOK)
        report = provided.replica().reconcile()
        assert report.problems == ("ProvidedBundleMissing: the Secret webhook-tls does not exist",)
        assert injected_in(provided.cluster.objects[HOOKS])[0] == self.first.certificate_pem


def test_keys_never_appear_in_logs_events_or_reports(caplog):
    installation = Installation()
    with caplog.at_level("DEBUG"):
        installation.reconcile()
        installation.reconcile(renew_leaves=True, rotate_authority=True)
        installation.settle()
        delete(AUTHORITY)(installation)
        installation.settle()
    output = caplog.text + repr(installation.recorder.events) + repr(installation.replica().observe())
    assert "PRIVATE KEY" not in output
    keys = [installation.data(path)["tls.key"] for path in (AUTHORITY, *LEAVES.values())]
    assert not any(line in output for key in keys for line in key.decode().splitlines()[1:-1])
