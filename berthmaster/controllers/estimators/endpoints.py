"""Where the estimator of a cluster is, and how the connection to it is protected.

The Service ``PREFIX-CLUSTER`` is looked up through the API server of the controllers. If the control plane runs
elsewhere, an ExternalName Service there has the address. If the API server has no such Service, which is usual because
karmada-apiserver has none, the estimator is in the cluster that the controllers run in.
"""

import socket
import ssl
from typing import Final, NamedTuple

from cryptography import x509

from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import Collection, get
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, InputError, ServiceError, shown
from berthmaster.model.meta import Value

LOOKUP_LIMIT_S: Final = 5.0
"""The longest time that the API server may take for a Service."""

_SERVICES: Final = Collection.of("v1", "services")
_HANDSHAKE_LIMIT_S: Final = 5.0


class _ServicePort(Value, frozen=True):
    """``core/v1.ServicePort``. Its target may be a number or a name."""

    port: int
    target_port: int | str | None = None


class _ServiceSpec(Value, frozen=True):
    """``core/v1.ServiceSpec``, reduced to the fields that are used."""

    type: str = ""
    external_name: str = ""
    ports: tuple[_ServicePort, ...] = ()


class _EstimatorService(Value, frozen=True):
    """``core/v1.Service``, reduced to the fields that are used."""

    spec: _ServiceSpec = _ServiceSpec()


class TLSMaterial(NamedTuple):
    """What a TLS connection is made with, as PEM.

    Attributes:
        server_name: the name that the server's certificate must have; empty for the host of the address.
    """

    roots: bytes
    certificate: bytes | None = None
    key: bytes | None = None
    server_name: str = ""


def addresses(client: APIClient, settings: EstimatorSettings, cluster: str) -> list[str]:
    """Return the possible addresses ``host:port`` of a cluster's estimator, most likely first.

    The rules are those of Karmada's ``resolveCluster``.

    Raises:
        ServiceError: the API server did not answer, or the Service has no usable address.
    """
    name = settings.service(cluster)
    where = f"Service {settings.namespace}/{name}"
    request = get(_SERVICES, (settings.namespace, name))._replace(read_timeout_s=LOOKUP_LIMIT_S)
    try:
        spec = decode_json(_EstimatorService, ask(client, request)).spec
    except ApiError as error:
        if not error.not_found:
            raise
        host = f"{name}.{settings.namespace}.svc"
        return [f"{host}.cluster.local:{settings.port}", f"{host}:{settings.port}"]
    except InputError as error:
        raise ServiceError(f"{where}: {error}") from None
    if spec.type != "ExternalName":
        raise ServiceError(f"{where} has the type {shown(spec.type)}; accepted is ExternalName")
    target = next((each.target_port for each in spec.ports if each.port == settings.port), None)
    if not isinstance(target, int):
        raise ServiceError(f"{where}: its port {settings.port} needs a targetPort that is a number")
    return [f"{spec.external_name}:{target}"]


def check_tls(settings: EstimatorSettings) -> None:
    """Check the TLS options and files.

    Raises:
        InputError: they are invalid. Karmada ignores a certificate without a CA, and connects in plain text.
    """
    if (settings.cert_file is None) != (settings.key_file is None):
        raise InputError("scheduler estimators: set both the client certificate and its key, or none of them")
    if settings.cert_file is not None and not settings.tls:
        raise InputError(
            "scheduler estimators: a client certificate needs TLS: set the CA file, or skip the verification"
        )
    try:
        if settings.ca_file is not None and settings.verify:
            ssl.create_default_context(cafile=settings.ca_file)
        _unverified_context(settings)
    except (OSError, ValueError) as error:
        raise InputError(f"TLS to scheduler estimators cannot be set up: {error}") from None


def tls_material(settings: EstimatorSettings, address: str) -> TLSMaterial | None:
    """Return what to connect to ``host:port`` with; None for plain text. Files are read again for each connection.

    Raises:
        ServiceError: a file cannot be read, or the server presents no certificate.
    """
    if not settings.tls:
        return None
    try:
        client = (
            None if settings.cert_file is None else settings.cert_file.read_bytes(),
            None if settings.key_file is None else settings.key_file.read_bytes(),
        )
        if settings.ca_file is not None and settings.verify:
            return TLSMaterial(settings.ca_file.read_bytes(), *client)
        presented = _presented_certificate(settings, address)
    except (OSError, ValueError) as error:
        raise ServiceError(f"{address}: {error}") from None
    return TLSMaterial(ssl.DER_cert_to_PEM_cert(presented).encode(), *client, _name_in(presented))


def _presented_certificate(settings: EstimatorSettings, address: str) -> bytes:
    """Return the certificate that a server presents. gRPC cannot skip the verification, but it can trust this one."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=_HANDSHAKE_LIMIT_S) as plain,
        _unverified_context(settings).wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        certificate = wrapped.getpeercert(binary_form=True)
    if certificate is None:
        raise ServiceError(f"{address}: the server presents no certificate")
    return certificate


def _unverified_context(settings: EstimatorSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # only used to read the certificate if verification is skipped
    context.set_alpn_protocols(["h2"])
    if settings.cert_file is not None:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def _name_in(certificate: bytes) -> str:
    try:
        extension = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return ""
    names = extension.value.get_values_for_type(x509.DNSName)
    hosts = [*names, *map(str, extension.value.get_values_for_type(x509.IPAddress))]
    return hosts[0].replace("*", "any", 1) if hosts else ""
