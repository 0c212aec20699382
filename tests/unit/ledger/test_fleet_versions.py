"""Fleet versions: what the writer encodes, the reader restores."""

import msgspec
import pytest
from builders import cluster
from msgspec.structs import replace
from tables import cases

from berthmaster.deciding.decision_recorder import FleetLog
from berthmaster.ledger.fleet_versions import ClusterChange, FleetReader, FleetWriter, digest_of
from berthmaster.model.errors import InputError
from berthmaster.model.quantity import Quantity


def quantities(**amounts):
    return {name: Quantity(nanos, "") for name, nanos in amounts.items()}


def with_summary(old, **fields):
    """The cluster with other parts of its summary. All other parts are the same objects."""
    return replace(old, status=replace(old.status, resource_summary=replace(old.status.resource_summary, **fields)))


def nanos(restored):
    summary = restored.status.resource_summary
    return [
        {name: amount.nanos for name, amount in amounts.items()}
        for amounts in (summary.allocatable, summary.allocated, summary.allocating)
    ]


FIRST = with_summary(cluster("a", cpu=10, pods=20), allocating=quantities(cpu=1, memory=2))


@cases(
    "second",
    {
        "an allocating amount": with_summary(FIRST, allocating=quantities(cpu=5, memory=2)),
        "the order of amounts": with_summary(FIRST, allocating=quantities(memory=2, cpu=1)),
        "one amount less": with_summary(FIRST, allocating=quantities(cpu=5)),
        "no amounts": with_summary(FIRST, allocating={}),
        "allocated too": with_summary(FIRST, allocating=quantities(cpu=5, memory=2), allocated=quantities(cpu=3)),
        "nothing": FIRST,
        "a label": replace(FIRST, metadata=replace(FIRST.metadata, labels={"a": "b"})),
    },
)
def test_a_changed_cluster_is_restored(second):
    documents: list[bytes] = []

    def number_of(document):
        documents.append(document)
        return len(documents) - 1

    def new_writer():
        return FleetWriter(number_of, lambda number: digest_of(documents[number]))

    log = FleetLog()
    writer = new_writer()
    reader = FleetReader(documents.__getitem__)
    for each in (FIRST, second, FIRST):
        log.put(each)
        changes, version = writer.write(log.snapshot())
        assert version == new_writer().write(log.snapshot())[1], "the digest depends on the content alone"
        reader.read(changes)
        changed, gone = reader.changes()
        assert not gone
        assert reader.version() == version
        for restored in changed:
            assert nanos(restored) == nanos(each)
            assert restored.metadata.labels == each.metadata.labels
    assert bool(changed) is (second is not FIRST)


@cases(
    "change",
    {
        "an unknown cluster is removed": None,
        "an unknown cluster changes": ClusterChange(None, 1, "5"),
        "a document is missing": ClusterChange(0, None, "5"),
        "a number is none": ClusterChange(0, 1, "5 x"),
        "there are too many numbers": ClusterChange(0, 1, "5 5"),
        "there are too few numbers": ClusterChange(0, 1, ""),
    },
)
def test_a_damaged_version_is_refused(change):
    summary = {"resourceSummary": {"allocatable": {"cpu": "0"}}}
    documents = [msgspec.json.encode({"metadata": {"name": "m1"}, "status": summary}), b"[]"]
    reader = FleetReader(documents.__getitem__)

    def restored():
        reader.read({"m1": change})
        return reader.changes()

    with pytest.raises(InputError, match="run `berthmaster ledger verify`"):
        restored()


def test_a_change_of_other_numbers_is_refused():
    documents = [b'{"metadata":{"name":"m1"},"status":{"resourceSummary":{"allocatable":{"cpu":"0"}}}}', b"[]"]
    reader = FleetReader(documents.__getitem__)
    reader.read({"m1": ClusterChange(0, 1, "5")})
    with pytest.raises(InputError, match="does not follow"):
        reader.read({"m1": ClusterChange(None, None, "1 1")})
