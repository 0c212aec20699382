"""Fleet versions: what the writer encodes, the reader restores."""

import pytest
from builders import cluster
from msgspec.structs import replace

from berthmaster.controllers.fleet_log import FleetLog
from berthmaster.ledger.fleet_versions import FleetReader, FleetWriter, digest_of
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


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(with_summary(FIRST, allocating=quantities(cpu=5, memory=2)), id="an allocating amount"),
        pytest.param(with_summary(FIRST, allocating=quantities(memory=2, cpu=1)), id="the order of amounts"),
        pytest.param(with_summary(FIRST, allocating=quantities(cpu=5)), id="one amount less"),
        pytest.param(with_summary(FIRST, allocating={}), id="no amounts"),
        pytest.param(
            with_summary(FIRST, allocating=quantities(cpu=5, memory=2), allocated=quantities(cpu=3)), id="allocated too"
        ),
        pytest.param(FIRST, id="nothing"),
        pytest.param(replace(FIRST, metadata=replace(FIRST.metadata, labels={"a": "b"})), id="a label"),
    ],
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
        version = writer.write(log.snapshot(), 0)
        assert version == new_writer().write(log.snapshot(), 0), "the digest depends on the content alone"
        for changes in writer.take_changes().by_decision().values():
            reader.read(changes)
        changed, gone = reader.changes()
        assert not gone
        assert reader.version() == version
        for restored in changed:
            assert nanos(restored) == nanos(each)
            assert restored.metadata.labels == each.metadata.labels
    assert bool(changed) is (second is not FIRST)
