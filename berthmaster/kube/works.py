"""Lists Karmada's Works, and reads the template of a workload that has none yet."""

from functools import partial
from typing import Any, Final

import msgspec.structs

from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.kinds import WORKS
from berthmaster.kube.listing import Unread, pages
from berthmaster.kube.requests import Collection, get
from berthmaster.kube.responses import decode_response
from berthmaster.model.binding import Binding
from berthmaster.model.errors import ApiError
from berthmaster.model.kind_names import guessed_names
from berthmaster.model.meta import object_name
from berthmaster.model.template_facts import WITH_VOLUMES, facts_of
from berthmaster.model.work import Copies, KarmadaWork

_READ_TIMEOUT_S: Final = 10.0


def list_works(client: APIClient, most: int, *, namespace: str = "", labels: str = "") -> list[KarmadaWork]:
    """List the Works of a namespace, or with some labels. Raises ``ApiError`` if the list is not complete."""
    found: list[KarmadaWork] = []
    listed = pages(
        partial(ask, client), WORKS, namespace=namespace, labels=labels, read_timeout_s=_READ_TIMEOUT_S, most=most
    )
    for key, content in (each for part in listed for each in part.objects):
        if isinstance(content, Unread):
            raise ApiError(0, "", f"the Work {object_name(*key)} {content.problem}")
        found.append(decode_response(KarmadaWork, bytes(content), "a Work"))
    return found


def with_template(client: APIClient, copies: Copies, binding: Binding) -> Copies:
    """Return the copies of a workload with what its template says, if it is assigned and Karmada has written no Work.

    Only the template says then whether the copies will have volumes. It never raises: ``template_problem`` says why the
    template could not be read.
    """
    resource = binding.spec.resource
    if (resource.api_version, resource.kind) not in WITH_VOLUMES:
        return copies
    if copies.problem or copies.by_cluster or not binding.spec.clusters:
        return copies
    plural = guessed_names("", resource.kind).plural
    key = (resource.namespace, resource.name)
    request = get(Collection.of(resource.api_version, plural), key)
    try:
        raw = ask_if_found(client, request)
        template = facts_of(decode_response(dict[str, Any], raw, "the template")) if raw is not None else None
    except ApiError as error:
        problem = f"Karmada has written no Work, and the {resource.kind} {object_name(*key)} cannot be read: {error}"
        return msgspec.structs.replace(copies, template_problem=problem)
    return msgspec.structs.replace(copies, template=template)
