"""Names of resources on the command line, as kubectl accepts them."""

from collections.abc import Sequence

import click

from berthmaster.manifests import Manifests
from berthmaster.model.kind_names import BUILT_IN_NAMES, KindNames, guessed_names, resolve
from berthmaster.model.kinds import Scope, group_of, reason_not_propagated, scope_of_group
from berthmaster.simulation.world import ResourceName


def completed_types(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the types that complete a word. The user adds ``/NAME`` or a space and the name."""
    return [names.plural for names in BUILT_IN_NAMES if names.plural.startswith(incomplete) and _is_propagated(names)]


def _is_propagated(names: KindNames) -> bool:
    return reason_not_propagated(f"{names.group}/v1" if names.group else "v1", names.kind) is None


def resource_name(text: str) -> ResourceName:
    """Parse the name of a resource.

    Raises:
        click.UsageError: the text has another form.
    """
    name = ResourceName.parse(text)
    if name is None:
        raise click.UsageError(f"{text!r} is not a resource name; accepted is KIND/NAME or NAMESPACE/KIND/NAME")
    return name


def resource_argument(words: Sequence[str], namespace: str) -> ResourceName:
    """Parse a resource as kubectl does: ``TYPE/NAME`` or ``TYPE NAME``; also ``NAMESPACE/TYPE/NAME``.

    Raises:
        click.UsageError: the words have another form, or name another namespace than ``-n``.
    """
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
        name: the name as the user wrote it.
        namespace: the namespace if the name has none; empty for any.
    """
    present = {(group_of(each.api_version), each.kind) for each in manifests.templates}
    present |= {(group_of(each.spec.resource.api_version), each.spec.resource.kind) for each in manifests.bindings}
    # Kinds that the manifests contain come first: they are what the name can mean.
    known = [names for names in BUILT_IN_NAMES if (names.group, names.kind) in present]
    guessed = [guessed_names(*each) for each in sorted(present)]
    found = resolve(name.kind, [*known, *guessed, *BUILT_IN_NAMES])
    if found is None:
        return ResourceName(name.namespace or namespace, name.kind, name.name)
    scoped = scope_of_group(found.group, found.kind) is Scope.CLUSTER
    return ResourceName("" if scoped else name.namespace or namespace, found.kind, name.name)
