"""Credentials that a plugin or a provider gives to a user of a kubeconfig, by the official client.

Only this module imports the official client, which takes longer to import than all else of a short command.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes.config import ConfigException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from berthmaster.kube.connection_settings import CredentialsError
from berthmaster.kube.transport_errors import describe
from berthmaster.model.errors import shown

_EXPIRY_MARGIN: Final = timedelta(minutes=5)
"""A token that expires within this time is renewed."""
_CERTIFICATE: Final = frozenset({"clientCertificateData", "clientKeyData"})


class PluginCredentials:
    """The token or the certificate of one user. Raises ``CredentialsError`` if there is none."""

    def __init__(self, files: Sequence[Path], context: str) -> None:
        with _telling():
            merged = KubeConfigMerger(os.pathsep.join(map(str, files)))
            self._loader = _CredentialLoader(merged.config, active_context=context, config_base_path=None)  # type: ignore[no-untyped-call]  # inherited
            self._loader.load()
        self.certificate = self._loader.certificate
        self.key = self._loader.key

    def authorization(self) -> str:
        """Return the value of the header ``Authorization``. Runs the plugin again if the token has expired."""
        with _telling():
            return self._loader.present_token()


@contextmanager
def _telling() -> Iterator[None]:
    """Turn the errors of the official client into one."""
    try:
        yield
    except (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CredentialsError(describe(error)) from None


class _CredentialLoader(KubeConfigLoader):
    """The official loader, without silence about credentials that it could not read."""

    token = ""
    expiry: Any = None
    certificate = ""
    key = ""

    def present_token(self) -> str:
        if self.expiry is not None and parse_rfc3339(self.expiry) - _EXPIRY_MARGIN <= datetime.now(UTC):
            self.load()
        return self.token

    def load(self) -> None:
        user: Any = self._user
        self._load_authentication()  # type: ignore[no-untyped-call]  # inherited
        if "auth-provider" in user and not self.token:
            name = user["auth-provider"].safe_get("name")
            raise ConfigException(f"the auth-provider {shown(name)} gave no token; use the exec plugin of the provider")

    def _load_from_exec_plugin(self) -> bool | None:
        user: Any = self._user
        cluster: Any = self._cluster
        if "exec" not in user:
            return None
        plugin = user["exec"]
        folder = self._get_base_path(cluster.path)  # type: ignore[no-untyped-call]  # inherited
        try:
            self._use(ExecProvider(plugin, folder, cluster).run())
        except (ConfigException, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigException(_plugin_problem(plugin, folder, error)) from None
        return True

    def _use(self, status: Any) -> None:  # noqa: ANN401 - the plugin's JSON
        """Take over the credentials that the plugin printed (client.authentication.k8s.io ExecCredentialStatus)."""
        if "token" in status:
            self.token = f"Bearer {status['token']}"
        elif not status.keys() >= _CERTIFICATE:
            raise ConfigException("it printed neither a token nor a certificate with its key")
        if status.keys() >= _CERTIFICATE:
            self.certificate, self.key = str(status["clientCertificateData"]), str(status["clientKeyData"])
        if "expirationTimestamp" in status:
            self.expiry = parse_rfc3339(status["expirationTimestamp"])


def _plugin_problem(plugin: Any, folder: str, error: Exception) -> str:  # noqa: ANN401 - the official client's node
    command = str(plugin.safe_get("command"))
    path = str(Path(folder or ".") / command) if os.sep in command else command
    missing = shutil.which(path) is None
    problem = "is not installed, or is not on the PATH" if missing else f"failed: {describe(error).rstrip('.')}"
    hint = " ".join(str(plugin.safe_get("installHint") or "").split()).rstrip(".")
    return f"the credential plugin {shown(command)} {problem}{f'; {hint}' if hint and missing else ''}"
