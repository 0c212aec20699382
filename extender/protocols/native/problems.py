"""``/v1/problems``: what is broken now, the worst first."""

from collections.abc import Mapping

from msgspec.structs import replace

from berthmaster.deciding.running import hosts_of
from berthmaster.kube.watch_options import BINDINGS
from berthmaster.native_api.problems import Damage, ProblemList
from berthmaster.views.move_budgets import visible_sources
from berthmaster.views.move_rows import RowContext, stated_moves
from extender.protocols.native.parameters import reader_of
from extender.protocols.native.schedule import require_watched
from extender.protocols.services import Call, Services
from extender.state.problems import Hurt, ProblemFacts, hurt_workloads, known_outages, problems_of


def problem_list(services: Services, call: Call) -> ProblemList:
    """Return the problems of clusters and of the control plane, and of the workloads that the reader may see."""
    require_watched(services, BINDINGS, subject="the workloads are")
    state, reader, now = services.state, reader_of(call), services.clock.now()
    version, staleness = state.version, state.staleness  # before the data, see ``State.version``
    gaps, lease, shown = state.gaps(reader), state.lease().record, staleness
    if reader.namespaces is not None:
        # What is wrong with the source can name any object.
        shown = replace(staleness, problem="")
    if lease is not None:
        lease = lease._replace(sources=visible_sources(lease, reader))
    with state.reading() as cache:
        clusters = cache.world.clusters
    hosts, counts = hosts_of(clusters), state.copy_counts()
    with state.placed() as index:
        services.check_deadline(call)
        outages = known_outages(index, hosts, counts)
        moves = index.moves()
        if reader.namespaces is not None:
            outages = [each for each in outages if reader.sees(each.placed.binding.spec.resource.namespace)]
            moves = [each for each in moves if reader.sees(each.binding.spec.resource.namespace)]

        def hurt() -> Mapping[Damage, Hurt]:
            names = reader.namespaces
            return hurt_workloads(index.by_name() if names is None else index.in_namespaces(names), outages)

        # To look at all workloads takes long, and few questions come after a change of one.
        found = index.kept(("hurt", hosts.ready, counts.overrides, reader.namespaces), hurt)
        context = RowContext(now, "" if lease is None else lease.brake.reason)
        stated = stated_moves(moves, context)
        facts = ProblemFacts(clusters, hosts, found, outages, stated, lease, shown, now)
        items, totals = problems_of(facts)
    return ProblemList(items, totals, version, gaps, shown)
