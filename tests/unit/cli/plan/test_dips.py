"""Placement and template change one after the other: what a plan says about replicas that are fewer for a while."""

import json

from click.testing import CliRunner
from edited_fleet import deduct_nothing
from fleet_dump import RECORD
from karmada_model.members import Delays
from karmada_model.model import Settings
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector
from tables import cases

from berthmaster_cli.main import main


def weighted(**weights):
    rules = [{"targetCluster": {"clusterNames": [name]}, "weight": each} for name, each in weights.items()]
    return {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": rules},
        }
    }  # fmt: skip


class PlacedFleet:
    """A Deployment that the model of Karmada has placed on two clusters."""

    def __init__(self, replicas, placement):
        self._policy = policy("web", selector(name="web"), placement=placement, schedulerName="berthmaster")
        self._template = deployment("web", replicas)
        self.stage = Stage(
            cluster("a"), cluster("b"), self._policy, self._template,
            karmada=Settings(delays=Delays(0, 0, 0, 0, 0)), only=("garbage", "detector", "bindings"),
        )  # fmt: skip
        deduct_nothing(self.stage)
        self.stage.settle()

    def objects(self):
        stored = self.stage.model.objects
        kinds = ("Cluster", "PropagationPolicy", "ResourceBinding", "Deployment")
        return [RECORD, *(each for kind in kinds for each in stored.all(kind))]

    def change(self, replicas, placement):
        """Return the manifests of a change of both objects."""
        return (
            {**self._policy, "spec": {**self._policy["spec"], "placement": placement}},
            {**self._template, "spec": {**self._template["spec"], "replicas": replicas}},
        )

    def fewest(self, *manifests):
        """Apply manifests one after the other. Return the fewest replicas of each cluster in between."""
        passed = []
        for each in manifests:
            self.stage.apply(each)
            self.stage.settle()
            passed.append(self.stage.assignment(self._template))
        return {name: min(each.get(name, 0) for each in passed) for name in ("a", "b")}


SENTENCE = "placement and template change one after the other, so that replicas may dip: "


@cases(
    ("before", "after", "dips"),
    {
        "one cluster gets less weight, and replicas are added": (
            (10, {"a": 1, "b": 1}), (50, {"a": 1, "b": 9}), {"a": (5, 1, 5)}
        ),
        "the weights are exchanged": ((10, {"a": 1, "b": 4}), (40, {"a": 4, "b": 1}), {"b": (8, 2, 8)}),
        "replicas are removed, and one cluster gets more weight": (
            (50, {"a": 1, "b": 9}), (10, {"a": 1, "b": 1}), {"a": (5, 1, 5)}
        ),
        "a cluster that stays loses all for a while": ((2, {"a": 1, "b": 1}), (8, {"a": 1, "b": 7}), {"a": (1, 0, 1)}),
        "only weights change": ((10, {"a": 1, "b": 1}), (10, {"a": 1, "b": 4}), {}),
        "only replicas change": ((10, {"a": 1, "b": 1}), (50, {"a": 1, "b": 1}), {}),
        "a cluster joins, and replicas are added": ((4, {"a": 1}), (8, {"a": 1, "b": 1}), {"a": (4, 2, 4)}),
        "a cluster is left for another one": ((4, {"a": 1}), (8, {"b": 1}), {}),
    },
)  # fmt: skip
def test_a_plan_says_what_karmada_passes_through(tmp_path, before, after, dips):
    def fleet():
        return PlacedFleet(before[0], weighted(**before[1]))

    change = fleet().change(after[0], weighted(**after[1]))
    for name, objects in (("dump", fleet().objects()), ("new", change)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    asked = ["plan", "--against", str(tmp_path / "dump.json"), "-f", str(tmp_path / "new.json"), "-o", "json"]
    found = json.loads(CliRunner().invoke(main, asked, catch_exceptions=False).stdout)
    notes = [note for row in (*found["moves"], *found["staying"]) for note in row["notes"]]
    texts = [f"{name} {then} → {least} → {now}" for name, (then, least, now) in dips.items()]
    assert notes == ([SENTENCE + ", ".join(texts)] if texts else [])
    fewest = [fleet().fewest(*order) for order in (change, change[::-1])]
    for name, (_, least, _) in dips.items():
        assert min(each[name] for each in fewest) == least, "as the model of Karmada has it"
