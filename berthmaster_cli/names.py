"""Names of resources on the command line, as kubectl accepts them."""

from collections.abc import Sequence

import click

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError
from berthmaster.model.kinds import BUILT_IN_NAMES, KindNames, group_of, guessed_names, reason_not_propagated
from berthmaster.simulation.changes import full_name, parsed_name
from berthmaster.simulation.workload import ResourceName


def completed_types(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the types that complete a word. The user adds ``/NAME`` or a space and the name."""
    return [names.plural for names in BUILT_IN_NAMES if names.plural.startswith(incomplete) and _is_propagated(names)]


def _is_propagated(names: KindNames) -> bool:
    return reason_not_propagated(f"{names.group}/v1" if names.group else "v1", names.kind) is None


def resource_name(text: str) -> ResourceName:
    """Parse the name of a resource."""
    try:
        return parsed_name(text)
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
    """Return a name as the manifests have it: with the kind that a plural or short name means, and the namespace.

    Args:
        manifests: the manifests. Their kinds are known beside the built-in ones, with guessed plurals.
    """
    present = {(group_of(each.api_version), each.kind) for each in manifests.templates}
    present |= {(group_of(each.spec.resource.api_version), each.spec.resource.kind) for each in manifests.bindings}
    # Kinds that the manifests contain come first: they are what the name can mean.
    known = [names for names in BUILT_IN_NAMES if (names.group, names.kind) in present]
    guessed = [guessed_names(*each) for each in sorted(present)]
    return full_name(name, namespace, [*known, *guessed])
