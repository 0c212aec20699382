"""The credentials of a kubeconfig, read by the official client, without silence about those that it could not read."""

import os
import shutil
from pathlib import Path
from typing import Any, Final

from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.transport_errors import describe
from berthmaster.model.errors import shown

_CERTIFICATE: Final = {"clientCertificateData": "cert_file", "clientKeyData": "key_file"}


def load_credentials(access: ClusterAccess, configuration: Configuration) -> None:
    """Set the server and the credentials. Raises ``ConfigException`` and, as the official client, other errors."""
    merged = KubeConfigMerger(os.pathsep.join(map(str, access.files)))  # type: ignore[no-untyped-call] # no types
    loader = _CredentialLoader(merged.config, active_context=access.context, config_base_path=None)  # type: ignore[no-untyped-call]
    loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    if "proxy" in vars(loader):  # proxy-url of the kubeconfig: like kubectl, use it whatever NO_PROXY says
        configuration.no_proxy = None


class _CredentialLoader(KubeConfigLoader):
    """The official loader, without silence about credentials that it could not read."""

    def _load_authentication(self) -> None:
        context: Any = self._current_context
        user: Any = self._user
        named = context["context"].safe_get("user")
        if named and user is None:
            raise ConfigException(f"there is no user {shown(named)}, which the context names")
        super()._load_authentication()  # type: ignore[no-untyped-call] # it has no types
        if user and "auth-provider" in user and "token" not in self.__dict__:
            name = user["auth-provider"].safe_get("name")
            raise ConfigException(f"the auth-provider {shown(name)} gave no token; use the exec plugin of the provider")

    def _load_from_exec_plugin(self) -> bool | None:
        user: Any = self._user
        cluster: Any = self._cluster
        if "exec" not in user:
            return None
        plugin = user["exec"]
        folder = self._get_base_path(cluster.path)  # type: ignore[no-untyped-call]
        try:
            status = ExecProvider(plugin, folder, cluster).run()  # type: ignore[no-untyped-call]
            self._use(status, folder)
        except (ConfigException, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigException(_plugin_problem(plugin, folder, error)) from None
        return True

    def _use(self, status: Any, folder: str) -> None:  # noqa: ANN401 - the plugin's JSON
        """Take over the credentials that the plugin printed (client.authentication.k8s.io ExecCredentialStatus)."""
        if "token" in status:
            self.token = f"Bearer {status['token']}"
        elif not _CERTIFICATE.keys() <= status.keys():
            raise ConfigException("it printed neither a token nor a certificate with its key")
        if _CERTIFICATE.keys() <= status.keys():
            for key, attribute in _CERTIFICATE.items():
                data = FileOrData(
                    status, None, data_key_name=key, file_base_path=folder, base64_file_content=False,
                    temp_file_path=self._temp_file_path,
                )  # type: ignore[no-untyped-call] # fmt: skip
                setattr(self, attribute, data.as_file())  # type: ignore[no-untyped-call]
        if "expirationTimestamp" in status:
            self.expiry = parse_rfc3339(status["expirationTimestamp"])  # type: ignore[no-untyped-call]


def _plugin_problem(plugin: Any, folder: str, error: Exception) -> str:  # noqa: ANN401 - the official client's node
    command = str(plugin.safe_get("command"))
    path = str(Path(folder or ".") / command) if os.sep in command else command
    missing = shutil.which(path) is None
    problem = "is not installed, or is not on the PATH" if missing else f"failed: {describe(error).rstrip('.')}"
    hint = " ".join(str(plugin.safe_get("installHint") or "").split()).rstrip(".")
    return f"the credential plugin {shown(command)} {problem}{f'; {hint}' if hint and missing else ''}"
