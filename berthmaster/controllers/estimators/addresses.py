"""Where the estimator of a cluster is: a Service called after it, looked up through the API server it is told to.

An install whose control plane runs elsewhere points there with a Service of type ExternalName. Where the API server
knows no such Service - the usual case, for Karmada's own has none - it is in the cluster that this runs in.
"""

from dataclasses import dataclass
from typing import Final

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import Collection, get
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, InputError, ServiceError, shown
from berthmaster.model.meta import Value

LOOKUP_LIMIT_S: Final = 5.0
"""How long the API server may think about a Service."""

_SERVICES: Final = Collection.of("v1", "services")


class ServicePort(Value, frozen=True):
    """``core/v1.ServicePort``: its target may be a number or a name."""

    port: int
    target_port: int | str | None = None


class ServiceSpec(Value, frozen=True):
    """``core/v1.ServiceSpec``, as far as it matters here."""

    type: str = ""
    external_name: str = ""
    ports: tuple[ServicePort, ...] = ()


class Service(Value, frozen=True):
    """``core/v1.Service``, as far as it matters here."""

    spec: ServiceSpec = ServiceSpec()


@dataclass(frozen=True, slots=True)
class Naming:
    """How the Services of estimators are called.

    Attributes:
        namespace: where they are.
        prefix: what stands before ``-<cluster>`` in their names.
        port: theirs.
    """

    namespace: str = "karmada-system"
    prefix: str = "karmada-scheduler-estimator"
    port: int = 10352

    def service(self, cluster: str) -> str:
        """The name of a cluster's Service."""
        return f"{self.prefix}-{cluster}"


def addresses(client: APIClient, naming: Naming, cluster: str) -> list[str]:
    """Where a cluster's estimator may be, as ``host:port``, the likeliest first (karmada ``resolveCluster``).

    Raises:
        ServiceError: the API server does not say, or the Service leads nowhere.
    """
    name = naming.service(cluster)
    request = get(_SERVICES, (naming.namespace, name))._replace(silence_s=LOOKUP_LIMIT_S)
    try:
        service = decode_json(Service, ask(client, request))
    except ApiError as error:
        if not error.not_found:
            raise
        host = f"{name}.{naming.namespace}.svc"
        return [f"{host}.cluster.local:{naming.port}", f"{host}:{naming.port}"]
    except InputError as error:
        raise ServiceError(f"Service {naming.namespace}/{name}: {error}") from None
    return [_external(service.spec, naming, name)]


def _external(spec: ServiceSpec, naming: Naming, name: str) -> str:
    where = f"Service {naming.namespace}/{name}"
    if spec.type != "ExternalName":
        raise ServiceError(f"{where} has the type {shown(spec.type)}; accepted is ExternalName")
    target = next((each.target_port for each in spec.ports if each.port == naming.port), None)
    if not isinstance(target, int):
        raise ServiceError(f"{where}: its port {naming.port} needs a targetPort that is a number")
    return f"{spec.external_name}:{target}"
