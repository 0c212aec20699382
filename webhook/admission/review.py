"""The wire types of ``admission.k8s.io/v1``, as far as a review reads and writes them."""

from typing import Any, Final, Literal

import msgspec

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the types here have in common. Fields that are not read are passed over."""


class GroupVersionKind(_Wire, frozen=True):
    """What kind of object is meant."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(_Wire, frozen=True):
    """Who asks."""

    username: str = ""


class Request(_Wire, frozen=True):
    """What the API server asks.

    ``object`` and ``old_object`` stay raw documents: a patch must fit what was sent, unknown fields and all.
    """

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = UserInfo()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None


class ReviewRequest(_Wire, frozen=True):
    """The review as it comes in."""

    api_version: str
    kind: str
    request: Request


class StatusCause(_Wire, frozen=True):
    """One reason of a denial, for programs."""

    reason: str
    message: str
    field: str


class StatusDetails(_Wire, frozen=True):
    """The reasons of a denial, for programs."""

    causes: tuple[StatusCause, ...]


class Status(_Wire, frozen=True, kw_only=True):
    """Why a review was not allowed."""

    status: Literal["Failure"] = "Failure"
    message: str
    reason: str
    code: int
    details: StatusDetails | None = None


class Response(_Wire, frozen=True, kw_only=True):
    """What is answered. ``patch`` is JSON; the wire wants it in base64, which the encoder does to bytes."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: bytes | None = None
    patch_type: Literal["JSONPatch"] | None = None
    audit_annotations: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class ReviewResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The review as it goes out."""

    response: Response
    api_version: str = API_VERSION
    kind: str = KIND
