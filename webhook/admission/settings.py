"""The configuration of admission."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from berthmaster.model.kinds import Scope, group_of, scope_of
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits
from berthmaster.model.releases import KarmadaReleases
from webhook.admission.blast_radius import DEFAULT_RADIUS, BlastRadius


class WebhookMode(StrEnum):
    """The relation to karmada-webhook.

    ``COMPANION``: runs beside karmada-webhook. ``STANDALONE``: replaces karmada-webhook for policies.
    """

    COMPANION = "companion"
    STANDALONE = "standalone"


class Level(StrEnum):
    """What happens with the findings of a rule."""

    DENY = "deny"
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The settings of an operator.

    Attributes:
        peer_checks: run karmada-webhook's checks in companion mode too, so that one answer reports every problem.
        levels: the level of a rule by its id, if it differs from the rule's default.
        scopes: the scope of kinds that are not built in, by (group, kind).
        unreachable: what the gate does if the extender cannot judge any change: DENY, or WARN and let pass.
        unjudged: what the gate does if the extender did not judge this change in time.
        karmada: the releases that the control plane may have; None for all that are supported.
    """

    mode: WebhookMode = WebhookMode.COMPANION
    peer_checks: bool = False
    levels: Mapping[str, Level] = field(default_factory=dict)
    scopes: Mapping[tuple[str, str], Scope] = field(default_factory=dict)
    scheduler_names: frozenset[str] = frozenset({"berthmaster"})
    drop_handlers: frozenset[str] = frozenset()
    policy_preemption: bool = False
    limits: PlacementLimits = DEFAULT_LIMITS
    max_values: int = 200_000
    max_policy_bytes: int = 512 * 2**10
    blast_radius: BlastRadius = DEFAULT_RADIUS
    unreachable: Level = Level.WARN
    unjudged: Level = Level.DENY
    karmada: KarmadaReleases | None = None
    exempt_users: frozenset[str] = frozenset()
    exempt_groups: frozenset[str] = frozenset()

    @property
    def standalone(self) -> bool:
        """Whether this webhook replaces karmada-webhook."""
        return self.mode is WebhookMode.STANDALONE

    def scope(self, api_version: str, kind: str) -> Scope | None:
        return self.scopes.get((group_of(api_version), kind)) or scope_of(api_version, kind)
