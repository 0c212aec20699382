"""What overrides change of the resources that they select."""

from builders import cluster
from tables import cases

from berthmaster.model.overrides import OverrideEffect, override_policy, replicas_set
from berthmaster.model.replicas import Template

WEB = Template("apps/v1", "Deployment", "web", "shop", {"app": "web"})
DEPLOYMENTS = [{"apiVersion": "apps/v1", "kind": "Deployment"}]


def policy(overriders, kind="ClusterOverridePolicy", selectors=None, target=None, **metadata):
    rule = {"targetCluster": target, "overriders": overriders}
    return override_policy(
        {
            "kind": kind,
            "metadata": {"name": "o", **metadata},
            "spec": {"resourceSelectors": selectors, "overrideRules": [rule]},
        }
    )


def plaintext(path, **fields):
    return {"plaintext": [{"path": path, "operator": "replace", **fields}]}


@cases(
    ("overriders", "effect", "replicas"),
    {
        "replicas": (plaintext("/spec/replicas", value=0), OverrideEffect.REPLICAS, [(0, ("a",))]),
        "no number of replicas": (plaintext("/spec/replicas"), OverrideEffect.REPLICAS, [(None, ("a",))]),
        "an image by its path": (
            plaintext("/spec/template/spec/containers/0/image", value="x"),
            OverrideEffect.IMAGES,
            [],
        ),
        "an image": ({"imageOverrider": [{"component": "Tag", "operator": "add"}]}, OverrideEffect.IMAGES, []),
        "a label": ({"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}, OverrideEffect.OTHERS, []),
        "a path that only ends like replicas": (
            plaintext("/spec/template/spec/replicas", value=1),
            OverrideEffect.OTHERS,
            [],
        ),
        "parts that are invalid": ({"plaintext": "x"}, OverrideEffect.OTHERS, []),
    },
)
def test_what_an_override_changes(overriders, effect, replicas):
    found = policy(overriders, target={"clusterNames": ["a"]})
    assert (found.effect, [(each.value, each.clusters) for each in found.replicas]) == (effect, replicas)


def test_the_deprecated_fields_count():
    spec = {"targetCluster": {"clusterNames": ["a"]}, "overriders": plaintext("/spec/replicas", value=3)}
    found = override_policy({"kind": "OverridePolicy", "metadata": {"name": "o", "namespace": "shop"}, "spec": spec})
    assert (found.name, [each[:2] for each in found.replicas]) == ("OverridePolicy shop/o", [(3, ("a",))])


@cases(
    ("fields", "selects"),
    {
        "all resources": ({}, True),
        "a kind": ({"selectors": DEPLOYMENTS}, True),
        "another kind": ({"selectors": [{"apiVersion": "v1", "kind": "Secret"}]}, False),
        "labels": ({"selectors": [{**DEPLOYMENTS[0], "labelSelector": {"matchLabels": {"app": "x"}}}]}, False),
        "its namespace": ({"kind": "OverridePolicy", "namespace": "shop"}, True),
        "another namespace": ({"kind": "OverridePolicy", "namespace": "other"}, False),
    },
)
def test_what_an_override_selects(fields, selects):
    assert policy({}, **fields).selects(WEB) is selects


def sets(value, *names, kind="OverridePolicy", selectors=None, path="/spec/replicas", operator="replace"):
    target = {"clusterNames": list(names)} if names else None
    written = {"plaintext": [{"path": path, "operator": operator, "value": value}]}
    scope = {"namespace": "shop"} if kind == "OverridePolicy" else {}
    return policy(written, kind=kind, selectors=selectors, target=target, **scope)


NAMED = [{**DEPLOYMENTS[0], "name": "web"}]
JOB = Template("batch/v1", "Job", "web", "shop")


@cases(
    ("policies", "template", "expected"),
    {
        "none": ([], WEB, None),
        "its clusters": ([sets(3, "a")], WEB, 3),
        "other clusters": ([sets(3, "b")], WEB, None),
        "all clusters": ([sets(3)], WEB, 3),
        "a namespaced override comes after a cluster-scoped one": (
            [sets(1), sets(2, kind="ClusterOverridePolicy", selectors=NAMED)], WEB, 1,
        ),
        "the more specific override comes last": ([sets(1, selectors=NAMED), sets(2, selectors=DEPLOYMENTS)], WEB, 1),
        "without the field, its default": ([sets(None, operator="remove")], WEB, 1),
        "no number": ([sets("many")], WEB, None),
        "the field of another kind": ([sets(4, path="/spec/parallelism")], WEB, None),
        "the field of a Job": ([sets(4, path="/spec/parallelism")], JOB, 4),
        "a namespaced override, and a resource without a namespace": (
            [sets(3)], Template("example.io/v1", "Widget", "w"), None,
        ),
    },
)  # fmt: skip
def test_the_replicas_that_overrides_set(policies, template, expected):
    assert replicas_set(policies, template, {"a": cluster("a")}).get("a") == expected
