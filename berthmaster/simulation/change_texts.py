"""What-if changes as people write them, in options and forms, such as ``member1=gpu=no:NoExecute``.

``CHANGE_TEXTS`` has the kinds. The commands and the page What if of the console read all of them by this table. A text
of another form is an ``InputError`` that says what is accepted.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from berthmaster.model.errors import InputError, shown
from berthmaster.model.kind_names import BUILT_IN_NAMES, KindNames, resolve
from berthmaster.model.kinds import Scope, scope_of_group
from berthmaster.model.meta import INT32_MAX
from berthmaster.model.selector import is_label_key, is_label_value
from berthmaster.model.taint import EFFECTS, Taint
from berthmaster.simulation.changes import (
    AddLabel,
    AddTaint,
    ClusterChange,
    Down,
    RemoveCluster,
    RemoveLabel,
    RemoveTaint,
    Scale,
    Up,
    WorkloadChange,
)
from berthmaster.simulation.workload import ResourceName

_REMOVED: Final = "-"


class ChangeText(NamedTuple):
    """A kind of change as people write it.

    Attributes:
        read: reads a text. Raises ``InputError`` for another form.
        option: the option of commands.
        field: the field of ``WrittenChanges``, and of the form of the console.
        label, example: the field as the form shows it.
        one, many: what changes, in the question above an answer.
        is_common: whether the form shows the field at first.
    """

    read: Callable[[str], ClusterChange | WorkloadChange]
    option: str
    field: str
    label: str
    example: str
    one: str
    many: str
    is_common: bool = False


class WrittenChanges(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The texts of changes. ``CHANGE_TEXTS`` has one entry for each field, in the same order.

    Attributes:
        taints: ``CLUSTER=KEY[=VALUE]:EFFECT``, or ``CLUSTER=KEY[:EFFECT]-``.
        labels: ``CLUSTER=KEY=VALUE``, or ``CLUSTER=KEY-``.
        scales: ``[NAMESPACE/]KIND/NAME=N``.
    """

    recover: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    lose: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()


def taint_change(text: str) -> AddTaint | RemoveTaint:
    """Read ``CLUSTER=KEY[=VALUE]:EFFECT``, or ``CLUSTER=KEY[:EFFECT]-`` for a taint that is removed."""
    cluster, _, rest = text.partition("=")
    if rest.endswith(_REMOVED):
        key, _, effect = rest.removesuffix(_REMOVED).partition(":")
        if cluster and is_label_key(key) and effect in {"", *EFFECTS}:
            return RemoveTaint(cluster, key, effect)
    pair, _, effect = rest.rpartition(":")
    key, _, value = pair.partition("=")
    if not (cluster and effect in EFFECTS and is_label_key(key) and is_label_value(value)):
        accepted = "CLUSTER=KEY[=VALUE]:EFFECT, or CLUSTER=KEY[:EFFECT]- to remove the taint"
        raise InputError(f"{shown(text)}: accepted is {accepted}; the effects are {', '.join(EFFECTS)}")
    return AddTaint(cluster, Taint(key=key, value=value, effect=effect))


def label_change(text: str) -> AddLabel | RemoveLabel:
    """Read ``CLUSTER=KEY=VALUE``, or ``CLUSTER=KEY-`` for a label that is removed."""
    cluster, _, pair = text.partition("=")
    key, equals, value = pair.partition("=")
    if cluster and not equals and is_label_key(key.removesuffix(_REMOVED)) and key.endswith(_REMOVED):
        return RemoveLabel(cluster, key.removesuffix(_REMOVED))
    if not (cluster and equals and is_label_key(key) and is_label_value(value)):
        accepted = "CLUSTER=KEY=VALUE, for example member1=env=prod, or CLUSTER=KEY- to remove the label"
        raise InputError(f"{shown(text)}: accepted is {accepted}")
    return AddLabel(cluster, key, value)


def scale_change(text: str) -> Scale:
    """Read ``[NAMESPACE/]KIND/NAME=N``."""
    written, _, number = text.rpartition("=")
    if not (written and number.isascii() and number.isdigit() and len(number) <= 10 and int(number) <= INT32_MAX):
        raise InputError(f"{shown(text)}: accepted is [NAMESPACE/]KIND/NAME=N, N from 0 to {INT32_MAX}")
    return Scale(full_name(ResourceName.parse(written)), int(number))


CHANGE_TEXTS: Final = (
    ChangeText(
        Up, option="--up", field="recover", label="Clusters that recover", example="member2",
        one="cluster recovers", many="clusters recover",
    ),
    ChangeText(
        label_change, option="--label", field="labels", label="Labels of clusters", example="member1=env=prod",
        one="label changes", many="labels change",
    ),
    ChangeText(
        taint_change, option="--taint", field="taints", label="Taints", example="member1=disk=slow:NoSchedule",
        one="taint changes", many="taints change", is_common=True,
    ),
    ChangeText(
        RemoveCluster, option="--remove", field="leave", label="Clusters that leave the fleet", example="member3",
        one="cluster leaves", many="clusters leave",
    ),
    ChangeText(
        Down, option="--down", field="lose", label="Clusters to lose", example="member1",
        one="cluster fails", many="clusters fail", is_common=True,
    ),
    ChangeText(
        scale_change, option="--scale", field="scales", label="Replicas of workloads", example="shop/Deployment/web=12",
        one="workload is scaled", many="workloads are scaled", is_common=True,
    ),
)  # fmt: skip
"""The kinds of changes, in the order in which they take effect."""


def full_name(name: ResourceName, namespace: str = "", known: Iterable[KindNames] = ()) -> ResourceName:
    """Return a name with the kind that a plural or short name means, and without the namespace of a cluster-scoped one.

    ``namespace``: the namespace if the name has none; empty for any.
    """
    found = resolve(name.kind, [*known, *BUILT_IN_NAMES])
    if found is None:
        return ResourceName(name.namespace or namespace, name.kind, name.name)
    scoped = scope_of_group(found.group, found.kind) is Scope.CLUSTER
    return ResourceName("" if scoped else name.namespace or namespace, found.kind, name.name)
