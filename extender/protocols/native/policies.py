"""``/v1/policies``: what each policy claims and allows, what the rules find, takeovers and priority drops.

The clusters that a placement allows, group by group, with what they have together.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from berthmaster.deciding.lease_record import SourcesRecord
from berthmaster.kube.watch_options import BINDINGS, POLICIES
from berthmaster.ledger.records import Query
from berthmaster.model.affinity import AffinityTerm
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError, LedgerError
from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.model.placement import Placement
from berthmaster.model.policy import POLICY_KINDS, Policy, PolicyReference
from berthmaster.model.taint import repelling_taints
from berthmaster.native_api.fleet import FleetAmount, sums_of
from berthmaster.native_api.policies import POLICY_SORTS, AllowedGroup, PolicyList, PolicyQuery, PolicyView
from berthmaster.native_api.why import MAX_NAMES
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.views.policy_rows import PolicyFinding, PolicyRow, PolicyUse, PriorityDropRow, policy_row, policy_uses
from berthmaster.views.policy_words import terms_of
from extender.protocols.native import parameters
from extender.protocols.native.fleet import cluster_row
from extender.protocols.native.schedule import require_watched
from extender.protocols.native.visible import visible_policy, visible_row
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, FindPolicy, Services

_ASPECTS: Final[Mapping[str, Callable[[PolicyRow], bool]]] = {
    "findings": lambda row: bool(row.findings),
    "takeovers": lambda row: bool(row.takes or row.loses),
    "drops": lambda row: bool(row.drops),
}
_ORDERS: Final[Mapping[str, Callable[[PolicyRow], int | str | None]]] = {
    "name": lambda row: f"{row.namespace}/{row.name}",
    "priority": lambda row: row.priority,
    "claims": lambda row: row.claims,
    "findings": lambda row: None if row.findings is None else len(row.findings),
    "takeovers": lambda row: None if row.claims is None else len(row.takes) + len(row.loses),
}
_MAX_PAGE: Final = 1000
PARAMETERS: Final = {
    "q": parameters.text("Only policies whose NAMESPACE/NAME contains this."),
    "kind": parameters.word("Only this kind.", POLICY_KINDS),
    "name": parameters.text("Only this name."),
    "only": parameters.text(f"Only policies that have all of: {', '.join(_ASPECTS)}; separated by commas."),
    "sort": parameters.sort(
        "The order; a dash before it reverses it. Default: by kind, namespace and name.", POLICY_SORTS
    ),
    "offset": parameters.number("How many policies to leave out first.", parameters.MAX_OFFSET, least=0),
    "limit": parameters.number("The most policies.", _MAX_PAGE),
    **parameters.NAMESPACES,
}
_MAX_DROPS: Final = 200
_NO_WORKLOADS: Final = "bindings are not watched: it is not known what policies claim"
_NO_LEDGER: Final = "the ledger cannot be read: recent priority drops are not shown"

Drops = Mapping[PolicyReference, Sequence[PriorityDropRow]]


class _Look(NamedTuple):
    uses: Mapping[PolicyReference, PolicyUse] | None
    drops: Drops
    gaps: list[str]


class Policies:
    """Shows policies. What rules find and what workloads say is computed again only after a change."""

    def __init__(self) -> None:
        self._computing = threading.Lock()
        self._findings: dict[PolicyReference, tuple[Policy, Sequence[PolicyFinding]]] = {}
        self._uses: tuple[Sequence[SimulatedWorkload], Mapping[PolicyReference, PolicyUse]] = ((), {})

    def listed(self, services: Services, call: Call) -> PolicyList:
        """Return a page of the policies that a reader may see."""
        reader, found = parameters.reader_of(call), parameters.values(PARAMETERS, call.query)
        only = tuple(filter(None, found.get("only", "").split(",")))
        unknown = next((each for each in only if each not in _ASPECTS), None)
        if unknown is not None:
            raise parameters.refused("only", unknown, ", ".join(_ASPECTS))
        query = PolicyQuery(**{**found, "only": only}, namespaces=reader.namespaces)
        require_watched(services, POLICIES, subject="the policies are")
        state, version, check = services.state, services.state.version, partial(services.give_way, call)
        with state.reading() as cache:
            stored = cache.policies
        with self._looking(services, call) as look:
            for gone in self._findings.keys() - {each.reference for each in stored}:
                del self._findings[gone]
            matching = sorted((each for each in stored if _matches(query, each)), key=lambda each: each.reference)

            def rows(policies: Iterable[Policy]) -> list[PolicyRow]:
                return [self._row(each, look, services.findings, check) for each in policies]

            known: dict[tuple[str, str, str], Policy] = {each.reference: each for each in matching}
            page = slice(query.offset, query.offset + query.limit)
            if query.only or query.sort:
                selected = [row for row in rows(matching) if all(_ASPECTS[each](row) for each in query.only)]
                matched, items = len(selected), _in_order(selected, query.sort)[page]
            else:
                matched, items = len(matching), rows(matching[page])
        return PolicyList(
            items=[visible_row(each, known[each.kind, each.namespace, each.name], reader) for each in items],
            matched=matched,
            total=sum(_matches(query._replace(q="", kind="", name=""), each) for each in stored),
            gaps=[*state.gaps(reader), *look.gaps],
            version=version,
            staleness=state.staleness,
        )

    def shown(self, services: Services, call: Call) -> PolicyView:
        """Return the policy that the path names, and what its placement allows."""
        reader, (namespace, name) = parameters.reader_of(call), parameters.key_of(call)
        reference = PolicyReference(POLICY_KINDS[not namespace], namespace, name)
        if not reader.sees(namespace):
            raise Refusal(404, f"there is no {reference}")
        require_watched(services, POLICIES, subject="the policies are")
        state, version, check = services.state, services.state.version, partial(services.give_way, call)
        with state.reading() as cache:
            policy = next((each for each in cache.policies if each.reference == reference), None)
            clusters = list(cache.fleet)
        if policy is None:
            raise Refusal(404, f"there is no {reference}")
        with self._looking(services, call) as look:
            row = self._row(policy, look, services.findings, check)
        record = state.lease().record
        return PolicyView(
            row=visible_row(row, policy, reader),
            policy=visible_policy(policy, reader),
            groups=allowed_groups(services, policy.spec.placement, clusters, check),
            failback=None if record is None else (record.sources or SourcesRecord()).failback,
            gaps=[*state.gaps(reader), *look.gaps],
            version=version,
            staleness=state.staleness,
        )

    @contextmanager
    def _looking(self, services: Services, call: Call) -> Iterator[_Look]:
        """Return what workloads and the ledger say. During the context, no other request computes rows."""
        drops, gaps = _recorded_drops(services)
        with services.one_at_a_time(self._computing, call, "other requests for policies"):
            uses = self._known_uses(services, partial(services.give_way, call))
            yield _Look(uses, drops, [*([_NO_WORKLOADS] if uses is None else []), *gaps])

    def _known_uses(self, services: Services, check: Callable[[], None]) -> Mapping[PolicyReference, PolicyUse] | None:
        state = services.state
        if not state.watches(BINDINGS):
            return None
        workloads = state.world(check).workloads
        known, uses = self._uses
        if known is not workloads:
            uses = policy_uses(workloads, check)
            self._uses = workloads, uses
        return uses

    def _row(self, policy: Policy, look: _Look, find: FindPolicy | None, check: Callable[[], None]) -> PolicyRow:
        reference = policy.reference
        use = None if look.uses is None else look.uses.get(reference) or PolicyUse()
        return policy_row(policy, use, self._found(policy, find, check), look.drops.get(reference, ()))

    def _found(
        self, policy: Policy, find: FindPolicy | None, check: Callable[[], None]
    ) -> Sequence[PolicyFinding] | None:
        if find is None:
            return None
        known = self._findings.get(policy.reference)
        if known is None or known[0] is not policy:
            check()
            known = self._findings[policy.reference] = policy, find(policy)
        return known[1]


def _in_order(rows: list[PolicyRow], sort: str) -> list[PolicyRow]:
    """Return rows in an order. Equal ones stay as they are; what is not known comes last in both directions."""
    if not sort:
        return rows
    key = _ORDERS[sort.removeprefix("-")]
    known = [(value, row) for row in rows if (value := key(row)) is not None]
    known.sort(key=itemgetter(0), reverse=sort.startswith("-"))
    return [row for _, row in known] + [row for row in rows if key(row) is None]


def _matches(query: PolicyQuery, policy: Policy) -> bool:
    """Return whether a policy is selected, as far as the policy alone says."""
    namespace = policy.reference.namespace
    return (
        query.kind in {"", policy.kind}
        and query.name in {"", policy.metadata.name}
        and query.q.lower() in f"{namespace}/{policy.metadata.name}".lower()
        and (query.namespaces is None or (namespace or CLUSTER_SCOPED) in query.namespaces)
    )


def _recorded_drops(services: Services) -> tuple[Drops, list[str]]:
    if services.ledger is None:
        return {}, []
    try:
        records = services.ledger.page(Query(trigger="priority-drop"), _MAX_DROPS).rows
    except (LedgerError, InputError) as error:
        services.log.warning("the ledger cannot be read: %s", error)
        return {}, [_NO_LEDGER]
    found: dict[PolicyReference, list[PriorityDropRow]] = defaultdict(list)
    for each in records:
        if each.resource_kind in POLICY_KINDS:
            reference = PolicyReference(each.resource_kind, each.namespace, each.name)
            found[reference].append(PriorityDropRow(each.message, time=each.time, record=each.id))
    return found, []


def allowed_groups(
    services: Services, placement: Placement, clusters: Sequence[Cluster], check: Callable[[], None]
) -> list[AllowedGroup]:
    """Return what each group of a placement allows."""
    chosen = []
    for name, extends, affinity in terms_of(placement):
        check()
        term = None if affinity is None else AffinityTerm(affinity)
        matching = [each for each in clusters if term is None or term.matches(each)]
        tolerated = [each for each in matching if not repelling_taints(each.spec.taints, placement.cluster_tolerations)]
        remaining = [each for each in tolerated if each.ready and not each.deleting]
        chosen.append((name, extends, len(matching), len(tolerated), remaining))
    resources = _resources(services, {each.name: each for *_, remaining in chosen for each in remaining}.values())
    return [
        AllowedGroup(
            name=name,
            extends=extends,
            matching=matching,
            repelling=matching - tolerated,
            unready=tolerated - len(remaining),
            names=sorted(each.name for each in remaining)[:MAX_NAMES],
            resources=sums_of(resources[each.name] for each in remaining),
        )
        for name, extends, matching, tolerated, remaining in chosen
    ]


def _resources(services: Services, clusters: Iterable[Cluster]) -> Mapping[str, Mapping[str, FleetAmount]]:
    state = services.state
    if not state.watches(BINDINGS):
        return {each.name: cluster_row(each, None).resources for each in clusters}
    reported = state.observed is not None
    with state.placed() as index:
        return {each.name: cluster_row(each, index.use(each.name), reported=reported).resources for each in clusters}
