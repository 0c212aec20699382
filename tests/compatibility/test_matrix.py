"""The matrix covers every field of every release, and each row is true."""

import copy
import json
from typing import Any, NamedTuple

import msgspec
import pytest
from decisions import DYNAMIC
from fake_clock import FakeClock
from field_page import KARMADA, MATRIX, PAGES, Handling, Row, page, tables
from kube_in_memory import KubeInMemory

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.event_handlers import eligible
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.estimators.queries import EstimatorQuery
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.kube.requests import CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile

KEY = "shop", "web-deployment"
_SERVED = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]


def member(name: str, number: int, **spec: Any) -> dict[str, Any]:
    """Return a Cluster with ten cores for each unit of its number, in its own region and zone, with a label."""
    amounts = {"cpu": str(10 * number), "memory": "100Gi", "pods": "110"}
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {"tier": f"t{number}"}},
        "spec": {"provider": f"p{number}", "region": f"r{number}", "zones": [f"z{number}"], "syncMode": "Push", **spec},
        "status": {
            "apiEnablements": _SERVED,
            "conditions": [{"type": "Ready", "status": "True"}],
            "resourceSummary": {"allocatable": amounts},
        },
    }


CLUSTERS = [member("a", 1), member("b", 2), member("c", 3)]
"""The fleet. The rows of clusters change ``a``."""
BINDING: dict[str, Any] = {
    "metadata": {"name": KEY[1], "namespace": KEY[0], "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
    "spec": {
        "schedulerName": "berthmaster",
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": KEY[0], "name": "web", "uid": "u"},
        "replicas": 6,
        "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "placement": {"replicaScheduling": DYNAMIC},
    },
}


class Outcome(NamedTuple):
    """Everything about a decision that a field can change.

    Attributes:
        eligible: whether our scheduler looks at the binding.
        priority: the priority in the queue.
        decided: the assignment, with components; None if it stays.
        trigger: why it is scheduled; ``None`` if it is not.
        reason: the reason of the condition.
        query: the question to scheduler estimators.
    """

    eligible: bool
    priority: int
    decided: Any
    trigger: str
    reason: str
    query: EstimatorQuery | None


def merged(document: Any, patch: Any) -> Any:
    """Return a document with a merge patch applied (RFC 7386). Lists are replaced."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def outcome(
    binding: dict[str, Any], clusters: list[dict[str, Any]], peers: list[dict[str, Any]], gates: frozenset[str]
) -> Outcome:
    """Decide for a binding.

    Args:
        binding: the document of the binding.
        clusters: the documents of the clusters.
        peers: bindings that are scheduled already, by their documents.
        gates: the feature gates that are on.
    """
    context = ControllerContext(KubeInMemory(), FakeClock(), None)  # type: ignore[arg-type] # no events
    bindings = BindingCache(context)
    queries: list[EstimatorQuery] = []
    cache = ClusterCache(
        karmada_profile(built_in(workload_affinity="WorkloadAffinity" in gates)),
        context.clock,
        FailoverOptions(),
        lambda query: queries.append(query) or {},
    )
    for raw in clusters:
        cache.update_cluster(decode_json(Cluster, json.dumps(raw)))
    for peer in peers:
        cache.update_peers(_read(context, bindings, peer))
    found = _read(context, bindings, binding)
    decision = cache.decide_and_assume(KEY, found)
    listed = None if decision.write is None else decision.write.clusters
    priority = found.spec.schedule_priority
    return Outcome(
        eligible(found, "berthmaster"),
        0 if priority is None else priority.priority,
        listed,
        decision.trigger.value,
        decision.result.reason,
        queries[0] if queries else None,
    )


def _read(context: ControllerContext, bindings: BindingCache, raw: dict[str, Any]) -> Binding:
    key = raw["metadata"]["namespace"], raw["metadata"]["name"]
    collection = RESOURCE_BINDINGS if key[0] else CLUSTER_RESOURCE_BINDINGS
    context.informers[collection].put(key, msgspec.Raw(json.dumps(raw).encode()))
    found = bindings.get(key)
    assert found is not None, f"{key} cannot be decoded"
    return found


def decided(row: Row, *, changed: bool) -> Outcome:
    """Decide the example of a row, before or after its change."""
    binding = merged(BINDING, row.base)
    first = merged(CLUSTERS[0], row.cluster)
    if changed:
        binding = binding if row.of_cluster else merged(binding, row.change)
        first = merged(first, row.change) if row.of_cluster else first
    annotations = binding["metadata"].get("annotations", {})
    if annotations.get("policy.karmada.io/applied-placement") == "PLACEMENT":
        annotations["policy.karmada.io/applied-placement"] = json.dumps(binding["spec"]["placement"])
    gates = frozenset({row.gate})
    return outcome(binding, [first, *CLUSTERS[1:]], list(row.peers), gates)


def covers(row: Row, field: str) -> bool:
    return any(field.startswith(each[:-1]) if each.endswith("*") else field == each for each in row.fields)


@pytest.mark.parametrize("field", KARMADA["fields"])
def test_one_row_covers_each_field(field):
    assert [row.handling for row in MATRIX.rows if covers(row, field)] in [[each] for each in Handling]


def test_no_row_is_about_a_field_that_no_release_has():
    known = [*KARMADA["fields"], "cluster.metadata.labels{}", "cluster.metadata.deletionTimestamp"]
    fields = [each for row in MATRIX.rows for each in row.fields]
    assert [each for each in fields if not any(field.startswith(each.removesuffix("*")) for field in known)] == []


@pytest.mark.parametrize("row", MATRIX.rows, ids=lambda row: row.fields[0])
def test_the_example_of_a_row_shows_what_happens(row):
    before, after = decided(row, changed=False), decided(row, changed=True)
    if row.handling is Handling.REFUSED:
        assert (after.decided, after.reason) == (None, row.reason)
        assert before.decided is not None
    elif row.handling is Handling.HONORED:
        assert before.decided or after.decided or before.trigger != after.trigger, "the example decides nothing"
        assert after != before
    else:
        assert after == before


def test_the_pages_have_the_tables_of_the_matrix():
    texts = [each.read_text() for each in PAGES]
    assert [page(each) for each in texts] == texts, "run `make compatibility`"
    for name, _ in tables():
        assert sum(f"<!-- table of {name}: " in each for each in texts) == 1, name


@pytest.mark.parametrize("gate", MATRIX.gates)
def test_a_row_names_only_gates_that_karmada_has(gate):
    assert gate in KARMADA["gates"]


def test_gates_of_rows_are_in_the_table_of_gates():
    assert {row.gate for row in MATRIX.rows if row.gate} <= MATRIX.gates.keys()
