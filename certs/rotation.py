"""What has to become of an authority: one step at a time, from nothing but what is stored and the time. Pure.

An authority is replaced with overlap, so that at no moment a client meets a leaf it cannot verify::

    settled     the issuer alone is trusted
    begun       its successor is trusted too: it is in the bundle, and the bundle goes to every client
    introduced  every client was seen to trust it; the overlap passes, for clients that read files or have caches
    taken over  it issues; leaves of its predecessor are issued anew
    superseded  every leaf was seen to be its own; the overlap passes, for servers that read files
    retired     the predecessor leaves the bundle

Each arrow is one write of one object, guarded by its version. Whoever looks next goes on from there, be it another
replica, or the same one after a crash. ``docs/certificates.md`` tells why nothing can go wrong in between.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509

from certs.authority import KeyPair
from certs.bundle import EMPTY, Bundle
from certs.leaf import RENEWED_AT, StoredLeaf, moment_of_life, serves, told
from certs.reading import fingerprint, issued_by, key_fits
from certs.reasons import Finding, Reason


class Mark(NamedTuple):
    """That something was seen to be so.

    Attributes:
        fingerprint: of the authority it was seen of; a mark of another one means nothing.
        at: since when.
    """

    fingerprint: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AuthorityState:
    """An authority as it is stored.

    Attributes:
        issuer: who issues leaves; None if there is nobody who can.
        successor: who will, once every client trusts it.
        bundle: whom clients should trust: the two and their predecessors.
        introduced: every client was seen to trust the successor.
        superseded: every leaf was seen to be of the issuer.
        problem: why there is no issuer.
    """

    issuer: KeyPair | None = None
    successor: KeyPair | None = None
    bundle: Bundle = EMPTY
    introduced: Mark | None = None
    superseded: Mark | None = None
    problem: Finding | None = None

    @property
    def predecessors(self) -> Bundle:
        """Who is trusted for what it once issued."""
        present = Bundle(each.certificate for each in (self.issuer, self.successor) if each is not None)
        return Bundle(each for each in self.bundle if each not in present)


class ServedLeaf(NamedTuple):
    """A leaf, and the bundle that is stored beside it."""

    leaf: StoredLeaf
    bundle: Bundle


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """How authorities come and go.

    Attributes:
        lifetime: how long a new one lives.
        overlap: how long what is stored may take to reach every client and every server.
        unwanted: fingerprints of authorities that somebody wants to be replaced.
    """

    lifetime: timedelta
    overlap: timedelta
    unwanted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a step depends on.

    Attributes:
        state: the authority.
        leaves: what servers show.
        clients: the bundle that each client has; None for one that cannot be looked at now.
        plan: how authorities come and go.
        now: the present, no earlier than everything else was looked at.
    """

    state: AuthorityState
    leaves: tuple[ServedLeaf, ...]
    clients: tuple[Bundle | None, ...]
    plan: RotationPlan
    now: datetime


class Change(NamedTuple):
    """A step: what should be stored, and why."""

    state: AuthorityState
    finding: Finding


Mint = Callable[[], KeyPair]
"""Makes a new authority."""
_Rule = Callable[[Situation, Mint], Change | None]


def next_change(situation: Situation, mint: Mint) -> Change | None:
    """The next step; None if there is nothing to do now.

    Args:
        situation: what there is.
        mint: called if the step needs a new authority.
    """
    return next((change for rule in _RULES if (change := rule(situation, mint)) is not None), None)


def _replace_lost(situation: Situation, mint: Mint) -> Change | None:
    """Nobody can issue. Leaves that still serve give time for an overlap; otherwise there is nothing to lose."""
    state, now = situation.state, situation.now
    if state.issuer is not None and state.issuer.certificate.not_valid_after_utc > now:
        return None
    finding = state.problem or Finding(Reason.AUTHORITY_MISSING, "there is no authority")
    if state.issuer is not None:
        finding = _expired(Reason.AUTHORITY_EXPIRED, state.issuer.certificate)
    patient = _all_serve(situation)
    successor = _living(state.successor, now)
    if successor is None:
        made = mint()
        # What is stored beside the leaves is the bundle as it was before the authority was lost.
        known = state.bundle.with_more(each for _, beside in situation.leaves for each in beside)
        lost = replace(state, issuer=None if patient else made, successor=made if patient else None, bundle=known)
        return _changed(situation, lost, finding)
    return None if patient else _changed(situation, replace(state, issuer=successor, successor=None), finding)


def _drop_expired_successor(situation: Situation, _mint: Mint) -> Change | None:
    successor = situation.state.successor
    if successor is None or _living(successor, situation.now):
        return None
    finding = _expired(Reason.SUCCESSOR_EXPIRED, successor.certificate)
    return _changed(situation, replace(situation.state, successor=None), finding)


def _repair_bundle(situation: Situation, _mint: Mint) -> Change | None:
    """What has to be trusted is; what has expired is not."""
    repaired = _bundle_for(situation, situation.state)
    stored = situation.state.bundle
    if repaired == stored:
        return None
    missing = [each.subject.rfc4514_string() for each in repaired if each not in stored]
    if missing:
        return _changed(situation, situation.state, Finding(Reason.BUNDLE_EDITED, f"it lacks {', '.join(missing)}"))
    return _changed(situation, situation.state, Finding(Reason.BUNDLE_OUTDATED, "it holds what nobody accepts now"))


def _begin(situation: Situation, mint: Mint) -> Change | None:
    state = situation.state
    if state.issuer is None or state.successor is not None:
        return None
    due = moment_of_life(state.issuer.certificate, RENEWED_AT)
    if fingerprint(state.issuer.certificate) in situation.plan.unwanted:
        finding = Finding(Reason.ROTATION_REQUESTED, "somebody wants a new authority")
    elif due <= situation.now:
        finding = Finding(Reason.AUTHORITY_DUE_FOR_ROTATION, f"two thirds of its life were over at {told(due)}")
    else:
        return None
    return _changed(situation, replace(state, successor=mint()), finding)


def _introduce(situation: Situation, _mint: Mint) -> Change | None:
    """Note since when every client trusts the successor, and forget it if one does not."""
    state = situation.state
    if state.successor is None:
        return None
    certificate = state.successor.certificate
    lacking = sum(1 for each in situation.clients if each is not None and certificate not in each)
    marked = _holds(state.introduced, certificate)
    if marked and lacking:
        finding = Finding(Reason.SUCCESSOR_NOT_EVERYWHERE, f"{lacking} clients do not trust the successor any more")
        return _changed(situation, replace(state, introduced=None), finding)
    if not marked and not lacking and None not in situation.clients:
        mark = Mark(fingerprint(certificate), situation.now)
        finding = Finding(Reason.SUCCESSOR_INTRODUCED, f"{len(situation.clients)} clients trust the successor")
        return _changed(situation, replace(state, introduced=mark), finding)
    return None


def _take_over(situation: Situation, _mint: Mint) -> Change | None:
    state = situation.state
    if state.successor is None or not _waited(situation, state.introduced, state.successor.certificate):
        return None
    finding = Finding(Reason.SUCCESSOR_TAKES_OVER, f"every client has trusted it for {situation.plan.overlap}")
    return _changed(situation, replace(state, issuer=state.successor, successor=None, introduced=None), finding)


def _supersede(situation: Situation, _mint: Mint) -> Change | None:
    """Note since when every leaf is of the issuer, and forget it if one is not."""
    state = situation.state
    if state.issuer is None or not len(state.predecessors):
        return None
    certificate = state.issuer.certificate
    others = sum(1 for each in situation.leaves if not _is_of(each.leaf, certificate))
    marked = _holds(state.superseded, certificate)
    if marked and others:
        finding = Finding(Reason.PREDECESSOR_IN_USE, f"{others} leaves are not of the issuer")
        return _changed(situation, replace(state, superseded=None), finding)
    if not marked and not others:
        mark = Mark(fingerprint(certificate), situation.now)
        finding = Finding(Reason.PREDECESSOR_SUPERSEDED, f"{len(situation.leaves)} leaves are of the issuer")
        return _changed(situation, replace(state, superseded=mark), finding)
    return None


def _retire(situation: Situation, _mint: Mint) -> Change | None:
    state = situation.state
    if state.issuer is None or not _waited(situation, state.superseded, state.issuer.certificate):
        return None
    kept = Bundle(each for each in state.bundle if each not in state.predecessors)
    names = ", ".join(each.subject.rfc4514_string() for each in state.predecessors)
    finding = Finding(Reason.PREDECESSOR_RETIRED, f"no server has shown a leaf of {names} for {situation.plan.overlap}")
    return _changed(situation, replace(state, bundle=kept, superseded=None), finding)


_RULES: Final[tuple[_Rule, ...]] = (
    _replace_lost, _drop_expired_successor, _repair_bundle, _begin, _introduce, _take_over, _supersede, _retire,
)  # fmt: skip


def _changed(situation: Situation, state: AuthorityState, finding: Finding) -> Change:
    return Change(replace(state, bundle=_bundle_for(situation, state), problem=None), finding)


def _bundle_for(situation: Situation, state: AuthorityState) -> Bundle:
    """Predecessors, issuer, successor, and who signed leaves that serve: as long as somebody may accept them.

    What is there keeps its place, so that a take-over, which changes no trust, changes no bundle either.
    """
    present = (each.certificate for each in (state.issuer, state.successor) if each is not None)
    return state.bundle.with_more([*present, *_signers(situation)]).unexpired(situation.now)


def _signers(situation: Situation) -> Iterator[x509.Certificate]:
    """Who signed what servers show, as the bundle beside the leaf says; so an authority that is lost stays trusted."""
    for leaf, beside in situation.leaves:
        yield from (each for each in beside if serves(leaf, each, situation.now))


def _all_serve(situation: Situation) -> bool:
    """Whether every server can do its work with the leaf it has."""
    known = situation.state.bundle.with_more(_signers(situation)).unexpired(situation.now)
    return bool(situation.leaves) and all(
        any(serves(each.leaf, authority, situation.now) for authority in known) for each in situation.leaves
    )


def _is_of(stored: StoredLeaf, issuer: x509.Certificate) -> bool:
    leaf = stored.certificate
    return leaf is not None and key_fits(leaf, stored.key_pem) and issued_by(leaf, issuer)


def _living(pair: KeyPair | None, now: datetime) -> KeyPair | None:
    return pair if pair is not None and pair.certificate.not_valid_after_utc > now else None


def _holds(mark: Mark | None, certificate: x509.Certificate) -> bool:
    return mark is not None and mark.fingerprint == fingerprint(certificate)


def _waited(situation: Situation, mark: Mark | None, certificate: x509.Certificate) -> bool:
    return mark is not None and _holds(mark, certificate) and mark.at + situation.plan.overlap <= situation.now


def _expired(reason: Reason, certificate: x509.Certificate) -> Finding:
    return Finding(reason, f"it expired at {told(certificate.not_valid_after_utc)}")
