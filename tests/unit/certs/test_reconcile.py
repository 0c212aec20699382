"""What becomes of certificates that somebody or something has spoiled."""

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
    TurnedClock,
    injected_in,
    reasons,
)  # fmt: skip
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from faults import nothing, only, refuse

from berthmaster.model.errors import ApiError, InputError
from certs.authority import BACKDATING, issue, new_authority
from certs.bundle import names_of
from certs.leaf import leaf_finding, serves
from certs.options import CertificateOptions, Origin, ServingCertificate
from certs.secrets import ROLE
from certs.steps import leaf_requirements

WEBHOOK = LEAVES["webhook-tls"]
HOOKS = CONFIGURATIONS[TARGETS[0]]
BEGINNING = ["BundleMissing"] * 3 + ["LeafMissing"] * 2


@pytest.fixture
def settled():
    """An installation some hours after it was made."""
    installation = Installation()
    installation.keep()
    installation.turn(timedelta(hours=5))
    return installation


def edit(path, **data):
    """A hand that writes into a Secret."""

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
    """A hand that puts a pair of somebody else's there."""
    other = new_authority("other", 1000 * DAY, START)
    leaf = issue(other, "x", ["webhook.system.svc", "10.0.0.1"], life, START)
    return edit(WEBHOOK, tls_crt=leaf.certificate_pem, tls_key=leaf.key_pem, ca_crt=b"")


def assert_well(installation):
    """Everything is as it should be, and stays so."""
    assert installation.keep() == []
    now, issuer = installation.clock.now(), installation.issuer().certificate
    for serving in OPTIONS.serving:
        assert leaf_finding(installation.leaf(serving.secret), issuer, leaf_requirements(serving, OPTIONS), now) is None
    assert installation.injected() == {installation.bundle().pem}
    assert {installation.bundle(path) for path in LEAVES.values()} == {installation.bundle()}


def test_a_beginning_makes_everything_in_an_order_that_no_client_notices():
    installation = Installation()
    assert installation.keep() == ["AuthorityMissing", *BEGINNING]
    assert_well(installation)
    secret = installation.cluster.objects[WEBHOOK]
    assert secret["type"] == "kubernetes.io/tls"
    assert secret["metadata"]["labels"][ROLE] == "serving"
    assert set(installation.cluster.objects[AUTHORITY]["data"]) == {"tls.crt", "tls.key", "ca.crt"}


def test_what_is_issued_is_what_servers_need():
    installation = Installation()
    installation.keep()
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


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        pytest.param(delete(WEBHOOK), ["LeafMissing"], id="a serving Secret was deleted"),
        pytest.param(edit(WEBHOOK, tls_key=b"garbage"), ["KeyDoesNotMatch"], id="a key was overwritten"),
        pytest.param(edit(WEBHOOK, tls_crt=b"garbage"), ["LeafUnreadable"], id="a certificate was overwritten"),
        pytest.param(edit(WEBHOOK, ca_crt=b"garbage"), ["BundleOutdated"], id="the bundle beside a leaf was"),
        pytest.param(replace_pair(90 * DAY), ["BundleOutdated", "WrongIssuer"], id="the pair is somebody else's"),
        pytest.param(edit_bundle(b"# nothing\n"), ["BundleMissing"], id="a configuration's bundle was emptied"),
        pytest.param(edit(AUTHORITY, ca_crt=b""), ["BundleEdited"], id="the authority's own bundle was emptied"),
        pytest.param(lambda _: None, [], id="nothing happened"),
    ],
)
def test_what_was_spoiled_is_put_right_at_once(settled, spoil, expected):
    spoil(settled)
    assert settled.keep() == expected
    assert_well(settled)


def test_a_stranger_in_the_authoritys_bundle_is_trusted_by_nobody_after_the_overlap(settled):
    stranger = new_authority("stranger", 99 * DAY, START).certificate_pem
    edit(AUTHORITY, ca_crt=settled.bundle().pem + stranger)(settled)
    done = settled.settle()
    assert "PredecessorRetired" in done
    assert len(settled.bundle()) == 1
    assert_well(settled)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(delete(AUTHORITY), id="deleted"),
        pytest.param(edit(AUTHORITY, tls_key=b"garbage"), id="its key is garbage"),
        pytest.param(edit(AUTHORITY, tls_crt=b"garbage", ca_crt=b"garbage"), id="its certificate is garbage"),
        pytest.param(edit(AUTHORITY, tls_key=new_authority("x", DAY, START).key_pem), id="its key is another's"),
    ],
)
def test_an_authority_that_is_lost_is_replaced_with_overlap(settled, spoil):
    before = settled.leaf()
    lost = settled.issuer().certificate
    spoil(settled)
    assert settled.keep()[-1] == "SuccessorIntroduced"
    assert settled.leaf() == before
    assert lost in settled.bundle()
    done = settled.settle()
    assert done.index("SuccessorTakesOver") < done.index("WrongIssuer") < done.index("PredecessorRetired")
    assert lost not in settled.bundle()
    assert_well(settled)


def test_with_nothing_left_that_serves_a_new_authority_issues_at_once(settled):
    delete(AUTHORITY)(settled)
    edit(WEBHOOK, tls_key=b"garbage")(settled)
    assert "KeyDoesNotMatch" in settled.keep()
    assert_well_apart_from_overlap(settled)


def assert_well_apart_from_overlap(installation):
    now, issuer = installation.clock.now(), installation.issuer().certificate
    assert all(serves(installation.leaf(name), issuer, now) for name in LEAVES)
    installation.settle()
    assert_well(installation)


def test_an_expired_authority_is_replaced_at_once_even_if_a_leaf_claims_to_live_on(settled):
    old = settled.issuer()
    careless = type(old)(new_authority("x", 9000 * DAY, START).certificate, old.key)
    leaf = issue(careless, "x", ["webhook.system.svc", "10.0.0.1"], 5000 * DAY, START)
    edit(WEBHOOK, tls_crt=leaf.certificate_pem, tls_key=leaf.key_pem)(settled)
    settled.turn(OPTIONS.authority_lifetime)
    assert settled.keep()[0] == "AuthorityExpired"
    assert old.certificate not in settled.bundle()
    assert_well_apart_from_overlap(settled)


def test_a_rotation_that_was_due_while_nobody_looked_still_overlaps(settled):
    settled.turn(OPTIONS.authority_lifetime * 0.7)
    assert settled.keep()[:2] == ["AuthorityDueForRotation", "BundleOutdated"]
    assert_well_apart_from_overlap(settled)


@pytest.mark.parametrize("years", [-30, -1, 1, 30])
def test_a_replica_whose_clock_is_years_off_does_nothing_that_others_would_not(settled, years):
    clock = TurnedClock(settled.clock.now() + timedelta(days=365 * years))
    assert reasons(settled.replica(clock=clock).reconcile()) == []
    assert settled.keep() == []


def test_without_the_right_to_ask_for_the_time_the_local_clock_does(settled):
    def refuse_dry_runs(request):
        if "dryRun" in dict(request.query):
            raise ApiError(403, "Forbidden", "no")

    settled.cluster.before = refuse_dry_runs
    settled.turn(60 * DAY)
    assert settled.keep() == ["LeafDueForRenewal"] * 2


def test_changed_names_are_a_new_leaf(settled):
    serving = (ServingCertificate("webhook-tls", ("webhook.system.svc", "new.example")), *OPTIONS.serving[1:])
    assert reasons(settled.replica(serving=serving).reconcile()) == ["NamesMissing"]
    assert names_of(settled.leaf().certificate) == {"webhook.system.svc", "new.example"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(AUTHORITY, id="where the authority should be"), pytest.param(WEBHOOK, id="where a leaf should be")],
)
def test_somebody_elses_secret_is_not_overwritten(path):
    installation = Installation()
    data = {name: base64.b64encode(b"precious").decode() for name in ("tls.crt", "tls.key")}
    name = path.rpartition("/")[2]
    installation.cluster.put(path, {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data})
    with pytest.raises(InputError, match=f"{NAMESPACE}/{name} holds") as told:
        installation.keep()
    assert "precious" not in str(told.value)
    assert installation.data(path)["tls.key"] == b"precious"


def test_an_authority_that_somebody_brings_is_taken_over():
    installation = Installation()
    pair = new_authority("brought", 400 * DAY, START)
    data = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem}
    content = {"metadata": {"name": "ca"}, "data": {name: base64.b64encode(pem).decode() for name, pem in data.items()}}
    content["metadata"]["namespace"] = NAMESPACE
    installation.cluster.put(AUTHORITY, content)
    assert installation.keep() == ["BundleEdited", *BEGINNING]
    assert installation.issuer().certificate == pair.certificate
    assert_well(installation)


def test_a_target_that_cannot_be_reached_stops_no_renewal_but_every_take_over(settled):
    settled.cluster.before = only(refuse(503, "Unavailable", message="away"), "GET", part=HOOKS)
    report = settled.replica().reconcile(renew_leaves=True, rotate_authority=True)
    assert report.problems == ("away",)
    done = [str(finding.reason) for _, finding in report.done]
    assert done.count("RenewalRequested") == 2
    assert "SuccessorIntroduced" not in done
    settled.turn(DAY)
    settled.replica().reconcile()
    assert len(settled.bundle()) == 2
    settled.cluster.before = nothing
    settled.settle()
    assert_well(settled)


def test_what_may_not_be_written_is_told_and_the_rest_is_done(settled):
    settled.cluster.before = only(refuse(403, "Forbidden", message="not yours"), "PATCH", part=WEBHOOK)
    report = settled.replica().reconcile(renew_leaves=True)
    assert report.problems == ("not yours",)
    assert [about.name for about, _ in report.done] == ["extender-tls"]
    assert ("Warning", "Secret/webhook-tls", "RenewalRequested") in settled.told.events


def test_two_that_write_the_same_settle_for_one(settled):
    """Somebody else's write falls between each read and each write for a while."""
    edits = iter(range(5))

    def meddle(request):
        if request.path == WEBHOOK and request.method == "PATCH" and next(edits, None) is not None:
            settled.cluster.change(WEBHOOK, lambda content: content["metadata"].update(annotations={"by": "other"}))

    settled.cluster.before = meddle
    assert sorted(settled.keep(renew_leaves=True)) == ["RenewalRequested"] * 2
    assert settled.told.counts.count(("RenewalRequested", "overtaken")) == 5
    assert_well(settled)


def test_one_that_never_gets_through_gives_up_in_bounds(settled):
    def meddle(request):
        if request.path == WEBHOOK and request.method == "PATCH":
            settled.cluster.change(WEBHOOK, lambda content: content["metadata"].update(annotations={"by": "other"}))

    settled.cluster.before = meddle
    report = settled.replica().reconcile(renew_leaves=True)
    assert "other clients keep writing" in report.problems[0]


def test_actions_are_told_where_a_person_would_look():
    installation = Installation()
    installation.keep()
    assert ("Normal", "Secret/ca", "AuthorityMissing") in installation.told.events
    assert ("Normal", "MutatingWebhookConfiguration/hooks", "BundleMissing") in installation.told.events


def test_a_configuration_that_is_not_there_yet_is_no_problem(settled):
    settled.cluster.remove(HOOKS)
    assert settled.keep() == []
    settled.cluster.put(HOOKS, {"metadata": {"name": "hooks"}, "webhooks": [{"name": "a", "clientConfig": {}}]})
    assert settled.keep() == ["BundleMissing"]


def test_only_what_is_ours_is_forgotten(settled):
    foreign = f"/api/v1/namespaces/{NAMESPACE}/secrets/foreign"
    settled.cluster.put(foreign, {"metadata": {"name": "foreign", "namespace": NAMESPACE}, "data": {}})
    replica = settled.replica(
        serving=(*OPTIONS.serving, ServingCertificate("foreign", ("a",)), ServingCertificate("gone", ("a",)))
    )
    assert list(replica.delete_secrets()) == ["webhook-tls", "extender-tls", "ca"]
    assert [path for path in settled.cluster.objects if "/secrets/" in path] == [foreign]


class TestProvided:
    """Somebody else stores certificates; only bundles are ours."""

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

    def test_their_bundle_is_injected_and_nothing_else_written(self, provided):
        assert provided.keep() == ["BundleMissing"] * 3
        assert provided.injected() == {self.first.certificate_pem}
        assert {request.path for request in provided.writes()} == set(CONFIGURATIONS.values())

    def test_their_new_authority_is_trusted_beside_the_old_one_until_pods_have_the_new_leaves(self, provided):
        provided.keep()
        provided.turn(DAY)
        second = new_authority("cert-manager", 900 * DAY, provided.clock.now())
        for name in LEAVES:
            self.store(provided, name, second)
        assert provided.keep() == ["BundleOutdated"] * 3
        both = {second.certificate_pem + self.first.certificate_pem}
        assert provided.injected() == both
        provided.turn(OPTIONS.overlap)
        provided.keep()
        assert provided.injected() == {second.certificate_pem}

    def test_what_they_have_not_stored_is_a_problem(self, provided):
        provided.cluster.remove(WEBHOOK)
        report = provided.replica().reconcile()
        assert report.problems == ("ProvidedBundleMissing: the Secret webhook-tls does not exist",)
        assert injected_in(provided.cluster.objects[HOOKS])[0] == self.first.certificate_pem


def test_no_key_is_ever_logged_or_told(caplog):
    installation = Installation()
    with caplog.at_level("DEBUG"):
        installation.keep()
        installation.keep(renew_leaves=True, rotate_authority=True)
        installation.settle()
        delete(AUTHORITY)(installation)
        installation.settle()
    told = caplog.text + repr(installation.told.events) + repr(installation.replica().observe())
    assert "PRIVATE KEY" not in told
    keys = [installation.data(path)["tls.key"] for path in (AUTHORITY, *LEAVES.values())]
    assert not any(line in told for key in keys for line in key.decode().splitlines()[1:-1])
