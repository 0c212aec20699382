"""What an operator decides about admission."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from berthmaster.model.kinds import Scope, group_of, scope_of


class Mode(StrEnum):
    """Who is in charge of Karmada's policies.

    ``COMPANION``: karmada-webhook is, and this one adds to it. ``STANDALONE``: this one does all that karmada-webhook
    would.
    """

    COMPANION = "companion"
    STANDALONE = "standalone"


class Level(StrEnum):
    """What becomes of a rule's findings."""

    DENY = "deny"
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of admission.

    Attributes:
        mode: see ``Mode``.
        peer_checks: run karmada-webhook's own checks in companion mode too, so that one answer names everything.
        levels: the level of a rule by its id, where it is not the rule's default.
        scopes: the scope of kinds that are not built in, by (group, kind).
        drop_handlers: user names that may clear a recorded priority drop: the controllers that handle it.
    """

    mode: Mode = Mode.COMPANION
    peer_checks: bool = False
    levels: Mapping[str, Level] = field(default_factory=dict)
    scopes: Mapping[tuple[str, str], Scope] = field(default_factory=dict)
    drop_handlers: frozenset[str] = frozenset()

    @property
    def standalone(self) -> bool:
        """Whether karmada-webhook is to be replaced."""
        return self.mode is Mode.STANDALONE

    def scope(self, api_version: str, kind: str) -> Scope | None:
        """The scope of a kind; None if nothing is known of it."""
        return self.scopes.get((group_of(api_version), kind)) or scope_of(api_version, kind)
