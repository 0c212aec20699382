"""KubeAdmiral's SchedulingProfile (``core.kubeadmiral.io/v1alpha1``): which scheduler plugins take part."""

from typing import Any

import msgspec

from berthmaster.model.base import Int64, Value
from berthmaster.model.meta import ObjectMeta


class PluginReference(Value, frozen=True):
    """A plugin, or the configuration of a webhook, by name. Neither type nor weight is looked at by KubeAdmiral."""

    name: str = ""
    type: str = ""
    weight: Int64 = msgspec.field(default=0, name="wait")
    """``wait`` is how KubeAdmiral's API spells it."""


class PluginSet(Value, frozen=True):
    """What changes at one extension point: ``disabled`` takes from the defaults (``*`` all), ``enabled`` adds."""

    enabled: tuple[PluginReference, ...] = ()
    disabled: tuple[PluginReference, ...] = ()


class ExtensionPoints(Value, frozen=True):
    """The points that can be configured."""

    filter: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    select: PluginSet = PluginSet()


class PluginConfig(Value, frozen=True):
    """Arguments of a plugin; KubeAdmiral passes them to none."""

    name: str
    args: Any = None


class SchedulingProfileSpec(Value, frozen=True):
    """What differs from the default profile."""

    plugins: ExtensionPoints = ExtensionPoints()
    plugin_config: tuple[PluginConfig, ...] = ()


class SchedulingProfile(Value, frozen=True):
    """A profile; policies name it in ``spec.schedulingProfile``."""

    metadata: ObjectMeta
    spec: SchedulingProfileSpec
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "SchedulingProfile"
