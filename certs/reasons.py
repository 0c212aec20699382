"""Why a certificate, an authority or a bundle is not left as it is: one word for machines, one sentence for people."""

from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why something has to be done. The words stand in logs, events, metrics and ``inspect``."""

    LEAF_MISSING = "LeafMissing"
    LEAF_UNREADABLE = "LeafUnreadable"
    KEY_DOES_NOT_MATCH = "KeyDoesNotMatch"
    LEAF_EXPIRED = "LeafExpired"
    LEAF_NOT_YET_VALID = "LeafNotYetValid"
    WRONG_USAGE = "WrongUsage"
    WRONG_ISSUER = "WrongIssuer"
    OUTLIVES_ISSUER = "OutlivesIssuer"
    NAMES_MISSING = "NamesMissing"
    NAMES_UNWANTED = "NamesUnwanted"
    LEAF_DUE_FOR_RENEWAL = "LeafDueForRenewal"
    RENEWAL_REQUESTED = "RenewalRequested"

    AUTHORITY_MISSING = "AuthorityMissing"
    AUTHORITY_UNREADABLE = "AuthorityUnreadable"
    AUTHORITY_EXPIRED = "AuthorityExpired"
    AUTHORITY_DUE_FOR_ROTATION = "AuthorityDueForRotation"
    ROTATION_REQUESTED = "RotationRequested"
    SUCCESSOR_EXPIRED = "SuccessorExpired"
    SUCCESSOR_INTRODUCED = "SuccessorIntroduced"
    SUCCESSOR_NOT_EVERYWHERE = "SuccessorNotEverywhere"
    SUCCESSOR_TAKES_OVER = "SuccessorTakesOver"
    PREDECESSOR_SUPERSEDED = "PredecessorSuperseded"
    PREDECESSOR_IN_USE = "PredecessorInUse"
    PREDECESSOR_RETIRED = "PredecessorRetired"

    BUNDLE_EDITED = "BundleEdited"
    BUNDLE_OUTDATED = "BundleOutdated"
    BUNDLE_MISSING = "BundleMissing"
    PROVIDED_BUNDLE_MISSING = "ProvidedBundleMissing"


class Finding(NamedTuple):
    """What was found.

    Attributes:
        reason: for machines.
        message: for people; names what is wrong and since when, never a key.
    """

    reason: Reason
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"
