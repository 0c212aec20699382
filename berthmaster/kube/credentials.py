"""The server and the credentials of an access: of a context of kubeconfig files, or of the service account of a pod."""

import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from berthmaster.kube.connection_settings import ConnectionSettings, CredentialsError
from berthmaster.kube.kubeconfig import HOST_VARIABLE, SERVICE_ACCOUNT, ClusterAccess, named_entry
from berthmaster.model.errors import InputError, shown
from berthmaster.runtime.clock import Clock, SystemClock

_PORT_VARIABLE: Final = "KUBERNETES_SERVICE_PORT"
_REREAD_S: Final = 60.0
"""How long a token is used before its file is read again, as client-go does."""


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""


class _Server(msgspec.Struct, rename="kebab"):
    """A cluster of a kubeconfig."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: Any = None
    auth_provider: Any = None


T = TypeVar("T")


class RereadToken:
    """A token that another program replaces before it expires."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._read()

    def authorization(self) -> str:
        if self._clock.monotonic_s() >= self._until_s:
            self._read()
        return self._value

    def _read(self) -> None:
        token = self._path.read_text("utf-8").strip()
        if not token:
            raise CredentialsError(f"the token file {self._path} is empty")
        self._value = f"Bearer {token}"
        self._until_s = self._clock.monotonic_s() + _REREAD_S


def connection_settings(
    access: ClusterAccess, *, environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> ConnectionSettings:
    """Read the server and the credentials. Raises ``InputError`` if they are not usable."""
    try:
        return _of_context(access) if access.files else _of_pod(environ, service_account)
    except (CredentialsError, OSError, ValueError) as error:
        problem = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{access}: {problem}; specify a kubeconfig file with access to the API server") from None


def _of_pod(environ: Mapping[str, str], folder: Path) -> ConnectionSettings:
    host, port = (environ.get(name, "") for name in (HOST_VARIABLE, _PORT_VARIABLE))
    if not host or not port:
        raise CredentialsError(f"${HOST_VARIABLE} and ${_PORT_VARIABLE} are not both set")
    authority = (folder / "ca.crt").read_text("utf-8")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return ConnectionSettings(server, RereadToken(folder / "token").authorization, authority)


def _of_context(access: ClusterAccess) -> ConnectionSettings:
    _, context = _entry(access, "contexts", "context", access.context, _Context)
    folder, server = _entry(access, "clusters", "cluster", context.cluster, _Server)
    settings = ConnectionSettings(
        server.server.rstrip("/"), proxy=server.proxy_url, verify=not server.insecure_skip_tls_verify,
        server_name=server.tls_server_name,
        authority=_pem(folder, server.certificate_authority, server.certificate_authority_data),
    )  # fmt: skip
    if not context.user:
        return settings
    folder, user = _entry(access, "users", "user", context.user, _User)
    settings = settings._replace(
        certificate=_pem(folder, user.client_certificate, user.client_certificate_data),
        key=_pem(folder, user.client_key, user.client_key_data),
    )
    if user.auth_provider is not None or (user.exec is not None and not (user.token or user.token_file)):
        from berthmaster.kube.credential_plugins import PluginCredentials  # noqa: PLC0415 - few users have a plugin

        plugin = PluginCredentials(access.files, access.context)
        if plugin.certificate:
            settings = settings._replace(certificate=plugin.certificate, key=plugin.key)
        return settings._replace(authorization=plugin.authorization)
    return settings._replace(authorization=_static_authorization(folder, user))


def _entry(access: ClusterAccess, section: str, kind: str, name: str, content: type[T]) -> tuple[Path, T]:
    """Return the folder of the file with an entry of a kubeconfig, and the content of the entry."""
    found = named_entry(access.files, section, kind, name)
    if found is None:
        raise CredentialsError(f"there is no {kind} {shown(name)}, which the context names")
    path, value = found
    try:
        return path.parent, msgspec.convert({key: each for key, each in value.items() if each is not None}, content)
    except msgspec.ValidationError as error:  # it shows no value
        raise CredentialsError(f"{kind} {shown(name)}: {error}") from None


def _pem(folder: Path, file: str, data: str) -> str:
    """Return what a field gives as data, or names as a file."""
    if data:
        return b64decode(data).decode("utf-8", "replace")
    return (folder / file).read_bytes().decode("utf-8", "replace") if file else ""


def _static_authorization(folder: Path, user: _User) -> Callable[[], str]:
    if user.token_file:
        return RereadToken(folder / user.token_file).authorization
    value = ""
    if user.token:
        value = f"Bearer {user.token}"
    elif user.username and user.password:
        value = f"Basic {b64encode(f'{user.username}:{user.password}'.encode()).decode()}"
    return lambda: value
