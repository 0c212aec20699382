"""KubeAdmiral's configuration of a scheduler plugin, which holds the bundle of the plugin's server."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from certs.bundle_fields import BundleField, ConfigurationKind


def _plugin_field(content: Mapping[str, Any]) -> Iterator[BundleField]:
    url = str(content["spec"].get("urlPrefix") or "")
    if url.startswith("https:"):
        yield BundleField(("spec", "tlsConfig"), "caData", url)


SCHEDULER_PLUGIN: Final = ConfigurationKind(
    "core.kubeadmiral.io/v1alpha1", "SchedulerPluginWebhookConfiguration", _plugin_field, 2, "SchedulingProfile"
)
"""A profile that names an unknown plugin stops scheduling."""
