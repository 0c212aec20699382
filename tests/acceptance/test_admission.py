"""What admission says: Berthmaster's webhook about policies, and Karmada's quota about assignments."""

import pytest
from acceptance.scenes import Scene
from kube_store import JSON

from berthmaster.model.errors import ApiError

QUOTA = "FederatedQuotaEnforcement"
QUOTA_EXCEEDED = "QuotaExceeded"


def test_the_webhook_refuses_a_policy_that_is_too_large_and_lets_others_pass(scene: Scene):
    """Karmada has no such limit, so it is Berthmaster's webhook that refuses."""
    scene.plane.use_webhook()
    scene.cluster("m1")
    web = scene.deployment()
    placement = scene.placement("m1")
    many = [{"key": f"taint-{number}", "operator": "Exists"} for number in range(300)]
    with pytest.raises(ApiError) as refusal:
        scene.policy("web", {**placement, "clusterTolerations": many})
    assert refusal.value.status == 403
    assert "300" in str(refusal.value)
    scene.policy("web", placement)
    scene.expect(web, {"m1": 4})


def refused(scene: Scene) -> JSON:
    if QUOTA not in scene.plane.gates:
        pytest.skip(f"needs a Karmada with the gate {QUOTA}, and KARMADA_FEATURE_GATES={QUOTA}")
    scene.plane.limit_cpu(3)
    scene.cluster("m1")
    web = scene.deployment()
    scene.policy("web", scene.placement("m1"))
    scene.plane.wait("a refusal", lambda: scene.scheduled(web).get("reason") == QUOTA_EXCEEDED)
    assert scene.assignment(web) == {}
    return web


def test_an_assignment_above_the_quota_is_refused_until_it_fits(scene: Scene):
    web = refused(scene)
    scene.plane.edit(web, spec={"replicas": 3})
    scene.expect(web, {"m1": 3})


def test_a_raised_quota_lets_a_refused_workload_in(scene: Scene):
    web = refused(scene)
    scene.plane.rest(30)  # until the backoff is at its longest
    scene.plane.limit_cpu(4)
    scene.expect(web, {"m1": 4})
