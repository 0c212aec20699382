"""Keeps certificates: looks at everything, does the one thing that comes next, looks again, until nothing is left.

Any number of replicas may do this at once, and any of them may end at any moment. Nothing is remembered between two
looks; a write that somebody else's overtook is refused as a conflict, and the next look finds what that one did.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from berthmaster.kube.client import ask
from berthmaster.kube.events import Reference
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock
from certs import secrets
from certs.bundle import Bundle
from certs.journal import Journal
from certs.options import Options, Origin
from certs.reading import fingerprint
from certs.reasons import Finding
from certs.server_time import ServerTime
from certs.steps import Step, Wishes, bundle_of, own_steps, provided_problems, provided_steps
from certs.world import Clusters, Unknown, World, read_world

_ROUNDS_FOR_EACH: Final = 6
"""How often one thing may have to be written until all is settled, with some conflicts among it."""


class Done(NamedTuple):
    """Something that was written.

    Attributes:
        about: what.
        finding: why.
    """

    about: Reference
    finding: Finding


class Report(NamedTuple):
    """How things are after a look at them.

    Attributes:
        world: what there is.
        now: when it was looked at, by the clock of the host's API server.
        done: what was written, in order.
        problems: what could not be read or written.
    """

    world: World
    now: datetime
    done: tuple[Done, ...]
    problems: tuple[str, ...]


class Upkeep:
    """Keeps the certificates that options name."""

    def __init__(self, clusters: Clusters, options: Options, clock: Clock, journal: Journal) -> None:
        self._clusters = clusters
        self._options = options
        self._time = ServerTime(clusters.host, options.namespace, clock)
        self._journal = journal

    def look(self) -> Report:
        """What there is, with nothing done about it.

        Raises:
            ApiError: a Secret cannot be read.
        """
        self._time.adjust()
        world = read_world(self._clusters, self._options)
        return Report(world, self._time.now(), (), tuple(self._not_there(world)))

    def bundle(self) -> Bundle:
        """Whom clients should trust now; empty if nobody is there yet.

        Raises:
            ApiError: a Secret cannot be read.
            InputError: the Secret of the authority is somebody else's.
        """
        return bundle_of(read_world(self._clusters, replace(self._options, targets=())), self._options)

    def keep(self, *, renew_leaves: bool = False, rotate_authority: bool = False) -> Report:
        """Do all that can be done now.

        Args:
            renew_leaves: replace every leaf that there is.
            rotate_authority: begin to replace the issuer that there is.

        Raises:
            ApiError: a Secret cannot be read.
            InputError: a Secret is somebody else's.
        """
        world, now = self.look()[:2]
        wishes = _wishes(world, renew_leaves=renew_leaves, rotate_authority=rotate_authority)
        done: list[Done] = []
        failed: dict[Reference, str] = {}
        steps = own_steps if self._options.origin is Origin.OWN else provided_steps
        for _ in range(_ROUNDS_FOR_EACH * (2 + len(self._options.serving) + len(self._options.targets))):
            todo = (step for step in steps(world, self._options, wishes, now) if step.about not in failed)
            step = next(todo, None)
            if step is None:
                break
            self._do(step, done, failed)
            world = read_world(self._clusters, self._options)
            now = self._time.now()
        else:
            failed[_NOBODY] = "others keep writing the same objects; what is left is done later"
        return Report(world, now, tuple(done), (*failed.values(), *self._not_there(world)))

    def forget(self) -> Iterator[str]:
        """Delete the Secrets that are ours, leaves first; their names as they go.

        Raises:
            ApiError: one cannot be read or deleted.
        """
        roles = [(each.secret, secrets.SERVING) for each in self._options.serving]
        for name, role in (*roles, (self._options.authority_secret, secrets.AUTHORITY)):
            if secrets.delete_secret(self._clusters.host, (self._options.namespace, name), role):
                yield name

    def _not_there(self, world: World) -> Iterator[str]:
        """What cannot be looked at, or what somebody else has yet to provide."""
        yield from (seen.problem for _, seen in world.targets if isinstance(seen, Unknown))
        if self._options.origin is Origin.PROVIDED:
            yield from provided_problems(world)

    def _do(self, step: Step, done: list[Done], failed: dict[Reference, str]) -> None:
        client = self._clusters.target if step.on_target else self._clusters.host
        try:
            ask(client, step.request)
        except ApiError as error:
            if error.conflict or (error.not_found and step.request.method == "PATCH"):
                self._journal.overtaken(step)
                return
            failed[step.about] = str(error)
            self._journal.failed(step, error)
            return
        done.append(Done(step.about, step.finding))
        self._journal.done(step)


_NOBODY: Final = Reference("", "", "", "")


def _wishes(world: World, *, renew_leaves: bool, rotate_authority: bool) -> Wishes:
    leaves = (secret.leaf.certificate for _, secret in world.serving if secret is not None) if renew_leaves else ()
    issuer = secrets.authority_of(world.authority).issuer if rotate_authority else None
    return Wishes(
        leaves=frozenset(fingerprint(leaf) for leaf in leaves if leaf is not None),
        authorities=frozenset([fingerprint(issuer.certificate)] if issuer is not None else []),
    )
