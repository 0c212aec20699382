"""The next thing to do, as a request that is ready to be sent. Pure but for the keys that new certificates need.

The order keeps clients and servers together: an authority is stored before its bundle goes to clients, and clients have
the bundle before a leaf is issued.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from berthmaster.kube import requests
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import APIRequest
from certs import secrets
from certs.authority import SERVERS_ONLY, KeyPair, issue, new_authority
from certs.bundle import EMPTY, Bundle
from certs.injection import bundles, patch
from certs.leaf import LeafPlan, StoredLeaf, judge, told
from certs.options import MANAGER, Options, Origin, Serving, Target
from certs.reasons import Finding, Reason
from certs.rotation import AuthorityState, RotationPlan, ServedLeaf, Situation, next_change
from certs.secrets import Secret
from certs.world import Seen, Unknown, World, target_reference

_MAX_COMMON_NAME: Final = 64


class Step(NamedTuple):
    """Something to do.

    Attributes:
        about: what is written.
        finding: why.
        request: what writes it.
        on_target: whether it goes to the target's API server; otherwise to the host's.
    """

    about: Reference
    finding: Finding
    request: APIRequest
    on_target: bool = False


class Wishes(NamedTuple):
    """What somebody wants to be replaced although it is fine, by fingerprints.

    Attributes:
        leaves: serving certificates.
        authorities: issuers.
    """

    leaves: frozenset[str] = frozenset()
    authorities: frozenset[str] = frozenset()


def own_steps(world: World, options: Options, wishes: Wishes, now: datetime) -> Iterator[Step]:
    """What an authority of our own needs, the most urgent first. Only one may be done before looking again.

    Raises:
        InputError: a Secret is somebody else's.
    """
    state = secrets.authority_of(world.authority)
    for _, secret in world.serving:
        if secret is not None:
            secrets.check_adoptable(secret, state)
    change = next_change(situation_of(world, options, wishes, state, now), partial(minted, options, now))
    if change is not None:
        key = (options.namespace, options.authority_secret)
        about = secrets.reference(key, world.authority)
        yield Step(about, change.finding, secrets.authority_request(key, world.authority, change.state))
    if not len(state.bundle):
        return  # there is no authority yet
    for target, seen in world.targets:
        yield from _injection(target, seen, state.bundle)
    for serving, secret in world.serving:
        yield from _serving_step(serving, secret, options, wishes, state, now)


def provided_steps(world: World, options: Options, _wishes: Wishes, now: datetime) -> Iterator[Step]:
    """What certificates need that somebody else stores: their bundles in every configuration.

    Whom a configuration trusted before stays trusted until the newest leaf has had time to reach its server.
    """
    provided = provided_bundle(world).unexpired(now)
    if not len(provided):
        return
    leaves = (secret.leaf.certificate for _, secret in world.serving if secret is not None)
    newest = max((leaf.not_valid_before_utc for leaf in leaves if leaf is not None), default=None)
    overlapping = newest is not None and newest + options.overlap > now
    for target, seen in world.targets:
        held: list[Bundle] = [] if seen is None or isinstance(seen, Unknown) else bundles(target.kind, seen)
        earlier = Bundle(each for bundle in held for each in bundle) if overlapping else EMPTY
        yield from _injection(target, seen, provided.with_more(earlier.unexpired(now)))


def provided_bundle(world: World) -> Bundle:
    """Whom to trust for certificates that somebody else stores."""
    return Bundle(each for _, secret in world.serving if secret is not None for each in secret.bundle)


def provided_problems(world: World) -> Iterator[str]:
    """What somebody else has yet to store."""
    for serving, secret in world.serving:
        if secret is None or not len(secret.bundle):
            what = "is not there" if secret is None else f"has no authority in its {secrets.BUNDLE}"
            yield f"{Reason.PROVIDED_BUNDLE_MISSING}: the Secret {serving.secret} {what}"


def bundle_of(world: World, options: Options) -> Bundle:
    """Whom clients should trust, as it is stored.

    Raises:
        InputError: the Secret of the authority is somebody else's.
    """
    own = options.origin is Origin.OWN
    return secrets.authority_of(world.authority).bundle if own else provided_bundle(world)


def situation_of(world: World, options: Options, wishes: Wishes, state: AuthorityState, now: datetime) -> Situation:
    """What the next step of an authority depends on."""
    leaves = (
        ServedLeaf(secret.leaf, secret.bundle) if secret is not None else ServedLeaf(StoredLeaf(), EMPTY)
        for _, secret in world.serving
    )
    plan = RotationPlan(options.authority_lifetime, options.overlap, wishes.authorities)
    return Situation(state, tuple(leaves), world.clients(), plan, now)


def leaf_plan(serving: Serving, options: Options, wishes: Wishes) -> LeafPlan:
    """What the leaf of a server should be."""
    return LeafPlan(serving.names, options.leaf_lifetime, wishes.leaves)


def _injection(target: Target, seen: Seen, bundle: Bundle) -> Iterator[Step]:
    if seen is None or isinstance(seen, Unknown):
        return
    operations = patch(target.kind, seen, bundle)
    if not operations:
        return
    held = bundles(target.kind, seen)
    finding = (
        Finding(Reason.BUNDLE_OUTDATED, f"it gets {len(bundle)} authorities")
        if all(len(each) for each in held)
        else Finding(Reason.BUNDLE_MISSING, f"it has no bundle; it gets {len(bundle)} authorities")
    )
    request = requests.json_patch(target.kind.collection, ("", target.name), operations, MANAGER)
    yield Step(target_reference(target, seen), finding, request, on_target=True)


def _serving_step(
    serving: Serving,
    secret: Secret | None,
    options: Options,
    wishes: Wishes,
    state: AuthorityState,
    now: datetime,
) -> Iterator[Step]:
    """A leaf, or at least the bundle beside it."""
    key = (options.namespace, serving.secret)
    about = secrets.reference(key, secret)
    issuer, stored = state.issuer, secret.leaf if secret is not None else StoredLeaf()
    if secret is not None and secret.get(secrets.BUNDLE) != state.bundle.pem:
        finding = Finding(Reason.BUNDLE_OUTDATED, f"beside the leaf there are {len(state.bundle)} authorities now")
        yield Step(about, finding, secrets.serving_request(key, secret, None, state.bundle))
    if issuer is None or issuer.certificate.not_valid_after_utc <= now:
        return
    finding_of_leaf = judge(stored, issuer.certificate, leaf_plan(serving, options, wishes), now)
    if finding_of_leaf is None:
        return
    name = serving.secret[:_MAX_COMMON_NAME]
    leaf = issue(issuer, name, serving.names, options.leaf_lifetime, now, usages=SERVERS_ONLY)
    made = StoredLeaf(leaf.certificate_pem, leaf.key_pem)
    yield Step(about, finding_of_leaf, secrets.serving_request(key, secret, made, state.bundle))


def minted(options: Options, now: datetime) -> KeyPair:
    """A new authority; its name says when it was made, for people who compare bundles."""
    return new_authority(f"berthmaster authority {told(now)}", options.authority_lifetime, now)
