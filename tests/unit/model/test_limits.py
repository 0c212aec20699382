import re
from pathlib import Path

import pytest

from berthmaster.model.decode import convert
from berthmaster.model.errors import InputError
from berthmaster.model.kubeadmiral import KubeAdmiralSpec
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy
from berthmaster.model.validation import (
    DEFAULT_LIMITS,
    LIMIT_NAMES,
    MAX_LIMIT,
    PlacementLimits,
    kubeadmiral_excess,
    placement_excess,
    policy_excess,
)

ROOT = Path(__file__).parents[3]
TWO = PlacementLimits(*(2 for _ in LIMIT_NAMES))
NAMES = ["a", "b", "c"]
EXISTS = [{"key": name, "operator": "Exists"} for name in NAMES]
AFFINITY = "clusterAffinity"
SELECTORS = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name} for name in NAMES]


def texts(errors):
    return [re.sub("; use fewer.*", "", str(error)) for error in errors]


def remedies(errors):
    return {str(error).split("raise ")[1] for error in errors}


def weights(count):
    return {
        "replicaScheduling": {"weightPreference": {"staticWeightList": [{"targetCluster": {}, "weight": 1}] * count}}
    }


PLACEMENTS = [
    pytest.param(
        {"clusterAffinities": [{"affinityName": name} for name in NAMES]},
        "clusterAffinities: 3 groups; at most 2 are scheduled",
        "groups",
        id="groups",
    ),
    pytest.param(
        {
            "clusterAffinities": [
                {"affinityName": "a"},
                {"affinityName": "b", "overflowAffinities": [{"affinityName": "o"}] * 3},
            ]
        },
        "clusterAffinities[1].overflowAffinities: 3 overflow affinities; at most 2 are scheduled",
        "overflowAffinities",
        id="overflow affinities of one group",
    ),
    pytest.param(
        weights(3),
        "replicaScheduling.weightPreference.staticWeightList: 3 static weights; at most 2 are scheduled",
        "staticWeights",
        id="static weights",
    ),
    pytest.param(
        {"spreadConstraints": [{}] * 3},
        "spreadConstraints: 3 spread constraints; at most 2 are scheduled",
        "spreadConstraints",
        id="spread constraints",
    ),
    pytest.param(
        {"clusterTolerations": [{}] * 3},
        "clusterTolerations: 3 tolerations; at most 2 are scheduled",
        "tolerations",
        id="tolerations",
    ),
    pytest.param(
        {AFFINITY: {"labelSelector": {"matchExpressions": EXISTS}}},
        "3 expressions in its selectors; at most 2 are scheduled",
        "expressions",
        id="expressions of one selector",
    ),
    pytest.param(
        {
            AFFINITY: {
                "labelSelector": {"matchExpressions": EXISTS[:2]},
                "fieldSelector": {"matchExpressions": EXISTS[:1]},
            }
        },
        "3 expressions in its selectors; at most 2 are scheduled",
        "expressions",
        id="expressions of several selectors",
    ),
    pytest.param(
        {AFFINITY: {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": NAMES}]}}},
        "3 values in the expressions of its selectors; at most 2 are scheduled",
        "values",
        id="values",
    ),
    pytest.param(
        {AFFINITY: {"clusterNames": NAMES[:2], "exclude": NAMES[:1]}},
        "3 names of clusters; at most 2 are scheduled",
        "clusterNames",
        id="names, included and excluded",
    ),
]


@pytest.mark.parametrize(("written", "expected", "name"), PLACEMENTS)
def test_a_placement_above_a_limit_names_the_field_both_numbers_and_the_remedy(written, expected, name):
    placement = convert(Placement, written)
    errors = placement_excess(placement, TWO)
    assert texts(errors) == [expected]
    assert remedies(errors) == {f"{name} in --placement-limits"}
    assert placement_excess(placement, TWO._replace(**{LIMIT_NAMES[name]: 3})) == []
    assert placement_excess(placement) == []


def test_the_paths_of_a_policy_start_at_the_policy():
    policy = convert(
        Policy,
        {
            "kind": "PropagationPolicy",
            "apiVersion": "policy.karmada.io/v1alpha1",
            "metadata": {"name": "p"},
            "spec": {
                "resourceSelectors": [
                    *SELECTORS,
                    {"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchExpressions": EXISTS}},
                ],
                "placement": {"clusterTolerations": [{}] * 3},
            },
        },
    )
    assert texts(policy_excess(policy, TWO)) == [
        "spec.resourceSelectors: 4 resource selectors; at most 2 are scheduled",
        "spec.resourceSelectors: 3 expressions in its selectors; at most 2 are scheduled",
        "spec.placement.clusterTolerations: 3 tolerations; at most 2 are scheduled",
    ]
    assert policy_excess(policy) == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(
            {"clusterAffinity": [{}] * 3}, "spec.clusterAffinity: 3 terms; at most 2 are scheduled", id="terms"
        ),
        pytest.param(
            {"tolerations": [{}] * 3}, "spec.tolerations: 3 tolerations; at most 2 are scheduled", id="tolerations"
        ),
        pytest.param(
            {"placement": [{"cluster": name} for name in NAMES]},
            "spec.placement: 3 clusters; at most 2 are scheduled",
            id="clusters of the placement",
        ),
        pytest.param(
            {"clusterSelector": dict.fromkeys(NAMES[:2], ""), "clusterAffinity": [{"matchFields": EXISTS[:1]}]},
            "spec: 3 expressions in its selectors; at most 2 are scheduled",
            id="expressions",
        ),
    ],
)
def test_a_kubeadmiral_policy_above_a_limit(written, expected):
    spec = convert(KubeAdmiralSpec, written)
    assert texts(kubeadmiral_excess(spec, TWO)) == [expected]
    assert kubeadmiral_excess(spec) == []


def test_large_numbers_are_readable():
    placement = convert(Placement, {"clusterAffinities": [{"affinityName": "a"}] * 1204})
    [error] = placement_excess(placement)
    assert str(error) == (
        "clusterAffinities: 1,204 groups; at most 1,024 are scheduled; use fewer, or raise groups in --placement-limits"
    )


def test_at_most_sixteen_errors_are_reported():
    group = {"affinityName": "a", "overflowAffinities": [{"affinityName": "o"}] * 65}
    assert len(placement_excess(convert(Placement, {"clusterAffinities": [group] * 100}))) == 16


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", DEFAULT_LIMITS, id="nothing"),
        pytest.param(
            "groups=2048, overflowAffinities = 8",
            DEFAULT_LIMITS._replace(groups=2048, overflow_affinities=8),
            id="some limits",
        ),
        pytest.param("groups=1,groups=2,", DEFAULT_LIMITS._replace(groups=2), id="the last one counts"),
    ],
)
def test_limits_are_parsed(text, expected):
    assert PlacementLimits.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("group=1", "unknown limit 'group'; known are resourceSelectors, groups, ", id="an unknown name"),
        pytest.param("groups", f"'groups' is not NAME=N with N from 1 to {MAX_LIMIT}", id="no number"),
        pytest.param("groups=0", "'groups=0' is not NAME=N", id="zero"),
        pytest.param("groups=-1", "'groups=-1' is not NAME=N", id="a negative number"),
        pytest.param(f"groups={MAX_LIMIT + 1}", "is not NAME=N", id="a number that is too large"),
        pytest.param(f"groups={'9' * 5000}", "is not NAME=N", id="a number of thousands of digits"),
    ],
)
def test_a_list_of_limits_that_is_invalid(text, problem):
    with pytest.raises(InputError, match=re.escape(problem)):
        PlacementLimits.parse(text)


def test_the_page_lists_every_limit_with_its_default():
    page = (ROOT / "docs" / "security.md").read_text().split("### Limits of placements")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", page, re.MULTILINE)
    defaults = DEFAULT_LIMITS._asdict()
    assert rows == [(name, f"{defaults[field]:,}") for name, field in LIMIT_NAMES.items()]
