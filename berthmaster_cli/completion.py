"""Completion of names: contexts, namespaces, clusters, workloads and policies.

The names are those of the files of ``-f``, or of the control plane that the options name. A control plane has 300 ms.
An error completes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from berthmaster.model.control_planes import CONTROL_PLANES
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import BerthmasterError
from berthmaster.model.kind_names import BUILT_IN_NAMES, KindNames, guessed_names, resolve
from berthmaster.model.meta import object_name
from berthmaster.model.policy import POLICY_KINDS
from berthmaster.model.skipped_resources import reason_not_propagated

_LIMIT_S: Final = 0.3
_MAX_BYTES: Final = 8 * 2**20
"""The most bytes of files that are read for a completion."""
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_CLUSTERS: Final = ("cluster.karmada.io/v1alpha1", "clusters")
_CLUSTER_KINDS: Final = frozenset(each.cluster.kind for each in CONTROL_PLANES)
_NAMESPACES: Final = ("v1", "namespaces")
_POLICIES: Final = ("policy.karmada.io/v1alpha1", "propagationpolicies")
_CLUSTER_POLICIES: Final = ("policy.karmada.io/v1alpha1", "clusterpropagationpolicies")


class _Row(msgspec.Struct):
    cells: list[Any]


class _NamedMetadata(msgspec.Struct):
    name: str = ""


class _NamedItem(msgspec.Struct):
    metadata: _NamedMetadata


class _Table(msgspec.Struct):
    """Names as kubectl lists them: the first cell of each row. ``items``: of an API that knows no tables."""

    rows: list[_Row] | None = None
    items: list[_NamedItem] | None = None

    @property
    def names(self) -> list[str]:
        cells = (str(each.cells[0]) for each in self.rows or () if each.cells)
        return [*cells, *(each.metadata.name for each in self.items or ())]


class _NameSource(NamedTuple):
    """What the options on the line say about where names come from."""

    paths: Sequence[str]
    kubeconfig: Path | None
    context: str | None
    namespace: str

    @classmethod
    def of(cls, ctx: click.Context) -> "_NameSource":
        values = ctx.params
        paths = [*(values.get("paths") or ()), *(values.get("against") or ())]
        namespace = values.get("namespace") or ""
        kubeconfig = values.get("kubeconfig")
        return cls(paths, Path(kubeconfig) if kubeconfig else None, values.get("context"), namespace)

    def documents(self) -> Iterator[tuple[str, str, str]]:
        """Yield the kind, the namespace and the name of each object of the files."""
        from berthmaster.manifests.limits import ManifestLimits  # noqa: PLC0415 - a live plane needs no files
        from berthmaster.manifests.loader import given_documents  # noqa: PLC0415 - the same

        limits = ManifestLimits(file_bytes=_MAX_BYTES)
        for each in given_documents([path for path in self.paths if path != "-"], limits=limits).documents:
            yield each.kind, each.namespace, each.name

    def listed(self, api_version: str, plural: str, *, namespaced: bool = False) -> list[str]:
        """Return the names of a collection of the control plane, in the namespace of the line or of the context."""
        from berthmaster.kube.client import ask  # noqa: PLC0415 - files need no client
        from berthmaster.kube.http_client import connect  # noqa: PLC0415 - the same
        from berthmaster.kube.kubeconfig import find_access  # noqa: PLC0415 - the same
        from berthmaster.kube.requests import APIRequest, Collection  # noqa: PLC0415 - the same

        access = find_access(self.kubeconfig, self.context)
        path = Collection.of(api_version, plural).within((self.namespace or access.namespace) if namespaced else "")
        # From the cache of the API server, and without the objects.
        query = (("includeObject", "None"), ("resourceVersion", "0"))
        body = ask(connect(access), APIRequest(path, query, _LIMIT_S, accept=_TABLE))
        return decode_json(_Table, body).names


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _quiet(names: Callable[[_NameSource, str], Iterable[str]]) -> Completer:
    """Return what completes a word with names. It offers none that the line has already, and never fails."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            found = list(dict.fromkeys(names(_NameSource.of(ctx), incomplete)))
        except (BerthmasterError, OSError):
            return []
        given = ctx.params.get(param.name or "") or ()
        taken = {given} if isinstance(given, str) else {*given}
        return [each for each in found if each.startswith(incomplete) and each not in taken]

    return complete


def _contexts(given: _NameSource, _: str) -> Iterable[str]:
    from berthmaster.kube.kubeconfig import known_contexts  # noqa: PLC0415 - files need no client

    return known_contexts(given.kubeconfig)


def _namespaces(given: _NameSource, _: str) -> Iterable[str]:
    if given.paths:
        return sorted({namespace for _, namespace, _ in given.documents() if namespace})
    return given.listed(*_NAMESPACES)


def _clusters(given: _NameSource, _: str) -> Iterable[str]:
    if given.paths:
        return sorted(name for kind, _, name in given.documents() if kind in _CLUSTER_KINDS)
    return given.listed(*_CLUSTERS)


def _changed_clusters(given: _NameSource, incomplete: str) -> Iterable[str]:
    """The clusters of ``CLUSTER=...``. The rest of the word is not completed."""
    return () if "=" in incomplete else (f"{each}=" for each in _clusters(given, incomplete))


def _policies(given: _NameSource, _: str) -> Iterable[str]:
    if given.paths:
        found = [each for each in given.documents() if each[0] in POLICY_KINDS]
        return sorted({object_name(*each[1:]) for each in found})
    return [*given.listed(*_POLICIES, namespaced=True), *given.listed(*_CLUSTER_POLICIES)]


def _workloads(given: _NameSource, incomplete: str) -> Iterable[str]:
    """Types, and after the slash the names of resources of the type."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return types()
    names = resolve(kind, BUILT_IN_NAMES)
    if given.paths:
        return sorted(f"{kind}/{name}" for each, _, name in given.documents() if _is(each, kind, names))
    if names is None:
        return ()
    version = f"{names.group}/v1" if names.group else "v1"
    return (f"{kind}/{name}" for name in given.listed(version, names.plural, namespaced=True))


def _is(kind: str, text: str, names: KindNames | None) -> bool:
    return kind == names.kind if names is not None else guessed_names("", kind).matches(text)


def types() -> list[str]:
    """Return the types of resources that Karmada propagates. The user adds ``/NAME``."""
    versioned = ((each, f"{each.group}/v1" if each.group else "v1") for each in BUILT_IN_NAMES)
    return [each.plural for each, version in versioned if reason_not_propagated(version, each.kind) is None]


contexts: Final = _quiet(_contexts)
namespaces: Final = _quiet(_namespaces)
clusters: Final = _quiet(_clusters)
changed_clusters: Final = _quiet(_changed_clusters)
policies: Final = _quiet(_policies)
workloads: Final = _quiet(_workloads)


def workload_and_cluster(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the workload first, and a cluster after it."""
    return (clusters if ctx.params.get(param.name or "") else workloads)(ctx, param, incomplete)
