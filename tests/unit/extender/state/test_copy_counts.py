"""How many replicas copies have, as overrides set them."""

from builders import cluster
from decisions import DYNAMIC, asked

from berthmaster.model.binding import GracefulEvictionTask
from berthmaster.model.meta import with_spec
from berthmaster.model.overrides import replica_overrides
from extender.state.copy_counts import CopyCounts

RULE = {
    "targetCluster": {"clusterNames": ["b"]},
    "overriders": {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 5}]},
}
OVERRIDE = {"kind": "ClusterOverridePolicy", "metadata": {"name": "o"}, "spec": {"overrideRules": [RULE]}}
CLUSTERS = {name: cluster(name) for name in ("a", "b")}
COUNTS = CopyCounts(replica_overrides([OVERRIDE]), CLUSTERS)


def test_a_divided_workload_asks_for_what_overrides_set_where_it_is_assigned():
    binding = asked(name="web", requests={"cpu": 1}, replicas=4, scheduling=DYNAMIC, clusters={"a": 3, "b": 1})
    assert (COUNTS.existing(binding), COUNTS.asked(binding)) == ({"a": 3, "b": 5}, 8)


def test_an_override_of_a_copy_that_leaves_asks_for_nothing():
    binding = asked(name="web", requests={"cpu": 1}, replicas=4, scheduling=DYNAMIC, clusters={"a": 4})
    leaving = GracefulEvictionTask("b", purge_mode="Gracefully", reason="Test", producer="Test", replicas=2)
    binding = with_spec(binding, graceful_eviction_tasks=(leaving,))
    assert (COUNTS.existing(binding), COUNTS.asked(binding)) == ({"a": 4, "b": 5}, 4)
