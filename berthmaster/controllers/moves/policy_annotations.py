"""The annotations of policies about moves, from the informers."""

from collections.abc import Callable, Mapping
from typing import Final

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.kube.informer import Informer
from berthmaster.kube.kinds import POLICIES_BY_KIND
from berthmaster.model.move import POLICY_KEYS
from berthmaster.model.policy import Policy, PolicyReference

_NONE: Final[Mapping[str, str]] = {}


class PolicyAnnotations:
    """Reads the annotations of the policies that the informers hold. Other controllers share the informers."""

    def __init__(self, context: ControllerContext) -> None:
        self._informers: dict[str, Informer[Policy]] = {
            kind: context.informer(watched.collection, watched.read) for kind, watched in POLICIES_BY_KIND.items()
        }

    def subscribe(self, changed: Callable[[PolicyReference], None]) -> None:
        """Call a function with each policy whose annotations about moves have changed."""

        def handle(_key: tuple[str, str], before: Policy | None, after: Policy | None) -> None:
            policy = after or before
            # The bindings of a policy that is new to this process are new as well.
            if policy is not None and before is not None and about_moves(before) != about_moves(after):
                changed(policy.reference)

        for informer in self._informers.values():
            informer.subscribe(handle)

    def of(self, policy: PolicyReference) -> Mapping[str, str]:
        """Return the annotations of a policy; empty if it is not known."""
        found = self._informers[policy.kind].get((policy.namespace, policy.name))
        return found.metadata.annotations if found is not None else _NONE


def about_moves(policy: Policy | None) -> dict[str, str]:
    """Return the annotations of a policy that concern moves."""
    annotations = policy.metadata.annotations if policy is not None else {}
    return {key: annotations[key] for key in sorted(POLICY_KEYS) if key in annotations}
