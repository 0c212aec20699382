"""Names of resources on the command line, as kubectl accepts them."""

from collections.abc import Sequence

import click

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError
from berthmaster.model.kind_names import BUILT_IN_NAMES, guessed_names
from berthmaster.model.kinds import group_of
from berthmaster.simulation.change_texts import full_name
from berthmaster.simulation.workload import ResourceName


def resource_name(text: str) -> ResourceName:
    """Parse the name of a resource."""
    try:
        return ResourceName.parse(text)
    except InputError as error:
        raise click.UsageError(str(error)) from None


def resource_argument(words: Sequence[str], namespace: str) -> ResourceName:
    """Parse a resource as kubectl does: ``TYPE/NAME`` or ``TYPE NAME``; also ``NAMESPACE/TYPE/NAME``."""
    if len(words) > 2 or (len(words) == 2 and any("/" in word for word in words)):
        raise click.UsageError(f"{' '.join(words)!r} is not one resource; accepted is TYPE/NAME or TYPE NAME")
    name = resource_name("/".join(words))
    if namespace and name.namespace not in {"", namespace}:
        raise click.UsageError(f"{words[0]!r} is in another namespace than -n {namespace}")
    return name


def name_in(manifests: Manifests, name: ResourceName, namespace: str) -> ResourceName:
    """Return a name with the kind that a plural or short name means, and the namespace, as the manifests have them."""
    present = {(group_of(each.api_version), each.kind) for each in manifests.templates}
    present |= {(group_of(each.spec.resource.api_version), each.spec.resource.kind) for each in manifests.bindings}
    # Kinds that the manifests contain come first: they are what the name can mean.
    known = [names for names in BUILT_IN_NAMES if (names.group, names.kind) in present]
    guessed = [guessed_names(*each) for each in sorted(present)]
    return full_name(name, namespace, [*known, *guessed])
