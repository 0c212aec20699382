"""KubeAdmiral's scheduling profiles, and its plugins that are webhooks."""

from typing import Any

import msgspec

from berthmaster.model.meta import Int64, ObjectMeta, Value


class PluginReference(Value, frozen=True):
    """A plugin or a webhook configuration, by name. KubeAdmiral ignores type and weight."""

    name: str = ""
    type: str = ""
    weight: Int64 = msgspec.field(default=0, name="wait")
    """KubeAdmiral's API spells this field ``wait``."""


class PluginSet(Value, frozen=True):
    """The changes at one extension point. ``disabled`` removes default plugins (``*`` all), ``enabled`` adds some."""

    enabled: tuple[PluginReference, ...] = ()
    disabled: tuple[PluginReference, ...] = ()


class ExtensionPoints(Value, frozen=True):
    filter: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    select: PluginSet = PluginSet()


class PluginConfig(Value, frozen=True):
    """The arguments of a plugin. KubeAdmiral does not pass them on."""

    name: str
    args: Any = None


class SchedulingProfileSpec(Value, frozen=True):
    plugins: ExtensionPoints = ExtensionPoints()
    plugin_config: tuple[PluginConfig, ...] = ()


class SchedulingProfile(Value, frozen=True):
    metadata: ObjectMeta
    spec: SchedulingProfileSpec
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "SchedulingProfile"


class SchedulerPluginWebhookSpec(Value, frozen=True):
    url_prefix: str = ""


class SchedulerPluginWebhookConfiguration(Value, frozen=True):
    """A scheduler plugin that is a webhook. Profiles refer to it by name."""

    metadata: ObjectMeta
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "SchedulerPluginWebhookConfiguration"
    spec: SchedulerPluginWebhookSpec = SchedulerPluginWebhookSpec()
