"""What karmada-webhook refuses in a placement."""

from collections import Counter
from collections.abc import Iterator

from berthmaster.model.selector import is_label_key
from webhook.admission.karmada.policy import Affinity, Group, Placement, Spread, Toleration, WorkloadAffinity
from webhook.admission.problem import ABSENT, Problem

_FIELDS = ("provider", "region", "zone")
_FIELD_OPERATORS = ("In", "NotIn")
_LABEL_KEY_REMEDY = "use letters, digits and -_. inside, with an optional DNS prefix and a slash"


def check_placement(placement: Placement) -> Iterator[Problem]:
    """Everything wrong with a placement."""
    yield from check_exclusive(placement)
    if placement.cluster_affinity is not None:
        yield from _check_field_selector(placement.cluster_affinity, "spec.placement.clusterAffinity")
    yield from _check_groups(placement)
    yield from _check_spread(placement.spread_constraints)
    if placement.workload_affinity is not None:
        yield from _check_workload_affinity(placement.workload_affinity)
    yield from _check_tolerations(placement.cluster_tolerations)


def check_exclusive(placement: Placement) -> Iterator[Problem]:
    """``clusterAffinity`` and ``clusterAffinities`` exclude each other; an empty list counts as given."""
    if placement.cluster_affinity is not None and placement.cluster_affinities is not None:
        yield Problem(
            "spec.placement", ABSENT, "clusterAffinity and clusterAffinities exclude each other",
            "keep one of them; a single affinity can be a group of its own",
        )  # fmt: skip


def check_group_names(placement: Placement) -> Iterator[Problem]:
    """The names of groups are unique."""
    seen: set[str] = set()
    for group in placement.cluster_affinities or ():
        if group.affinity_name in seen:
            yield Problem(
                "spec.placement.clusterAffinities", group.affinity_name, "two groups have this affinityName",
                "give each group a name of its own",
            )  # fmt: skip
        seen.add(group.affinity_name)


def _check_groups(placement: Placement) -> Iterator[Problem]:
    division = placement.replica_scheduling
    overflow_allowed = division is not None and division.allows_overflow
    for index, group in enumerate(placement.cluster_affinities or ()):
        path = f"spec.placement.clusterAffinities[{index}]"
        if not is_label_key(group.affinity_name):
            yield Problem(path, group.affinity_name, "affinityName is not a label key", _LABEL_KEY_REMEDY)
        yield from _check_field_selector(group, path)
        yield from _check_overflow(group, path, allowed=overflow_allowed)
    yield from check_group_names(placement)


def _check_overflow(group: Group, path: str, *, allowed: bool) -> Iterator[Problem]:
    if group.overflow_affinities is None:
        return
    if not allowed:
        yield Problem(
            f"{path}.overflowAffinities", ABSENT, "replicas overflow only when they are divided by available room",
            "divide them Aggregated or by dynamicWeight, or remove the overflow",
        )  # fmt: skip
    if group.empty:
        yield Problem(
            f"{path}.overflowAffinities", ABSENT, "the group itself means every cluster, so nothing is left to "
                                                  "overflow to",
            "say which clusters the group means",
        )  # fmt: skip
    seen = {group.affinity_name}
    for index, overflow in enumerate(group.overflow_affinities):
        here = f"{path}.overflowAffinities[{index}]"
        if not is_label_key(overflow.affinity_name):
            yield Problem(f"{here}.affinityName", overflow.affinity_name, "it is not a label key", _LABEL_KEY_REMEDY)
        if overflow.affinity_name in seen:
            yield Problem(
                f"{here}.affinityName", overflow.affinity_name, "the group or an earlier overflow has this name",
                "give each a name of its own",
            )  # fmt: skip
        seen.add(overflow.affinity_name)
        yield from _check_field_selector(overflow, here)


def _check_field_selector(affinity: Affinity, path: str) -> Iterator[Problem]:
    """The first bad expression only, as karmada-webhook does."""
    for expression in affinity.field_selector.match_expressions if affinity.field_selector is not None else ():
        if expression.key not in _FIELDS:
            fault, value, accepted = "unknown field", expression.key, ", ".join(_FIELDS)
        elif expression.operator not in _FIELD_OPERATORS:
            fault, value, accepted = "unsupported operator", expression.operator, " and ".join(_FIELD_OPERATORS)
        else:
            continue
        yield Problem(f"{path}.fieldSelector", value, fault, f"accepted are {accepted}")
        return


def _check_spread(constraints: tuple[Spread, ...]) -> Iterator[Problem]:
    for index, constraint in enumerate(constraints):
        path = f"spec.placement.spreadConstraints[{index}]"
        if constraint.spread_by_field and constraint.spread_by_label:
            yield Problem(path, ABSENT, "spreadByField and spreadByLabel exclude each other", "keep one of them")
        if constraint.min_groups < 0:
            yield Problem(path, constraint.min_groups, "minGroups is negative", "use 1 or more")
        if constraint.max_groups < 0:
            yield Problem(path, constraint.max_groups, "maxGroups is negative", "use 1 or more")
        if 0 < constraint.max_groups < constraint.min_groups:
            yield Problem(
                path,
                constraint.max_groups,
                f"maxGroups is below minGroups {constraint.min_groups}",
                "raise maxGroups",
            )
    fields = [each.spread_by_field for each in constraints if each.spread_by_field]
    for field in sorted(field for field, count in Counter(fields).items() if count > 1):
        yield Problem("spec.placement.spreadConstraints", field, "this field is constrained twice", "merge the two")
    if fields and "cluster" not in fields:
        yield Problem(
            "spec.placement.spreadConstraints", fields[0], "a constraint by field works only beside one by cluster",
            "add a constraint with spreadByField: cluster",
        )  # fmt: skip


def _check_workload_affinity(affinity: WorkloadAffinity) -> Iterator[Problem]:
    terms = {"affinity": affinity.affinity, "antiAffinity": affinity.anti_affinity}
    for name, term in terms.items():
        if term is not None and not is_label_key(term.group_by_label_key):
            yield Problem(
                f"spec.placement.workloadAffinity.{name}.groupByLabelKey", term.group_by_label_key,
                "it is not a label key", _LABEL_KEY_REMEDY,
            )  # fmt: skip
    together, apart = terms.values()
    if together is not None and apart is not None and together.group_by_label_key == apart.group_by_label_key:
        yield Problem(
            "spec.placement.workloadAffinity", together.group_by_label_key,
            "the same label cannot keep workloads together and apart", "use two labels, or drop one of the terms",
        )  # fmt: skip


def _check_tolerations(tolerations: tuple[Toleration, ...]) -> Iterator[Problem]:
    for index, toleration in enumerate(tolerations):
        if toleration.operator in {"Lt", "Gt"}:
            yield Problem(
                f"spec.placement.clusterTolerations[{index}].operator", toleration.operator,
                "clusters' taints are not compared as numbers", "accepted are Exists, Equal and nothing, which "
                                                                "means Equal",
            )  # fmt: skip
