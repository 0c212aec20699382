"""The wire format: Go's names, nulls, keys in any case."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_scheduler_builders import node, pod, with_names, with_nodes
from tables import cases

from berthmaster.model.cluster_node import Node
from berthmaster.model.decode import encode_json
from berthmaster.model.errors import FieldError
from extender.protocols.kube_scheduler.wire import (
    FilterResult,
    MetaPod,
    MetaVictims,
    NodeList,
    decode_args,
    decode_node,
    decode_preemption_args,
    encode_preemption_result,
    encode_priorities,
)

POD = pod(name="web-1")
BARE_POD = {"metadata": {"name": "bare", "creationTimestamp": None}, "spec": {"containers": None}, "status": {}}


def body(**members) -> bytes:
    return json.dumps(members).encode()


@cases(
    ("document", "pod_name", "names", "nodes"),
    {
        "names": (with_names(POD, ["a", "b"]), "web-1", ["a", "b"], 0),
        "nodes": (with_nodes(POD, [node("a")]), "web-1", None, 1),
        "an absent field is null": (body(Pod=POD, NodeNames=["a"]), "web-1", ["a"], 0),
        "lower case": (body(pod=POD, nodenames=["a"]), "web-1", ["a"], 0),
        "upper case": (body(POD=POD, NODES={"ITEMS": [node("a")]}), "web-1", None, 1),
        "the last of two equal keys": (body(pod=POD, Pod=BARE_POD, NodeNames=[]), "bare", [], 0),
        "a pod with nulls": (body(Pod=BARE_POD, Nodes=None, NodeNames=[]), "bare", [], 0),
        "a list without items": (body(Pod=POD, Nodes={"items": None}, NodeNames=None), "web-1", None, 0),
        "unknown fields": (body(Pod={**POD, "x": 1}, Nodes=None, NodeNames=["a"], Later={"a": [1]}), "web-1", ["a"], 0),
    },
)
def test_decode_args(document, pod_name, names, nodes):
    args = decode_args(document)
    assert (args.pod.metadata.name, args.names, len(args.nodes)) == (pod_name, names, nodes)


@cases(
    ("document", "path"),
    {
        "an empty body": (b"", ""),
        "a truncated body": (b"{", ""),
        "null": (b"null", ""),
        "an array": (b"[]", ""),
        "invalid UTF-8": (b'{"Pod": {}, "NodeNames": ["\xff"]}', "NodeNames"),
        "unbalanced brackets": (b"[" * 5000, ""),
        "too deep": (b'{"Pod": ' + b"[" * 100_000 + b"]" * 100_000 + b', "NodeNames": []}', ""),
        "no pod": (body(Pod=None, NodeNames=["a"]), "Pod"),
        "Pod is a string": (body(Pod="web", NodeNames=["a"]), "Pod"),
        "bad labels": (body(Pod={"metadata": {"labels": []}}, NodeNames=["a"]), "Pod.metadata.labels"),
        "neither names nor nodes": (body(Pod=POD, Nodes=None, NodeNames=None), ""),
        "NodeNames is a string": (body(Pod=POD, NodeNames="a"), "NodeNames"),
        "a name is a number": (body(Pod=POD, NodeNames=[1]), "NodeNames[0]"),
        "Nodes is an array": (body(Pod=POD, Nodes=[]), "Nodes"),
        "items is an object": (body(Pod=POD, Nodes={"items": {}}), "Nodes.items"),
    },
)
def test_decode_args_rejects(document, path):
    with pytest.raises(FieldError) as caught:
        decode_args(document)
    assert caught.value.path == path


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_a_truncated_body_is_rejected(cut):
    with pytest.raises(FieldError):
        decode_args(with_nodes(POD, [node("a")])[:cut])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda e: (
            st.lists(e)
            | st.dictionaries(
                st.sampled_from(["Pod", "pod", "Nodes", "NodeNames", "items", "metadata", "spec", "labels"]), e
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_decoded_or_rejected(document):
    for decode in (decode_args, decode_preemption_args):
        with contextlib.suppress(FieldError):
            decode(json.dumps(document).encode())


def test_the_error_of_an_invalid_node_has_its_index():
    args = decode_args(with_nodes(POD, [node("a"), {"metadata": {"name": 1}}]))
    assert decode_node(Node, args.nodes[0], 0).metadata.name == "a"
    with pytest.raises(FieldError) as caught:
        decode_node(Node, args.nodes[1], 1)
    assert caught.value.path == "Nodes.items[1].metadata.name"


def test_a_filter_result_has_the_field_names_of_go_and_every_field():
    names = FilterResult(node_names=["a"], failed_nodes={}, failed_and_unresolvable_nodes={"b": "reason"})
    assert json.loads(encode_json(names)) == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"b": "reason"},
        "Error": "",
    }


def test_nodes_are_returned_byte_for_byte():
    odd = b'{"metadata": {"name":"a" , "x": 1.0e3}, "status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}}}}'
    args = decode_args(b'{"Pod": {}, "Nodes": {"items": [' + odd + b']}, "NodeNames": null}')
    assert odd in encode_json(FilterResult(nodes=NodeList(args.nodes)))


def test_priorities_are_an_array_with_integers():
    assert encode_priorities({"a": 10, "b": 0}) == b'[{"Host":"a","Score":10},{"Host":"b","Score":0}]'


def test_a_preemption_result_has_uids():
    result = encode_preemption_result({"n": MetaVictims([MetaPod("u")], 2)})
    assert result == b'{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}'


@pytest.mark.parametrize(
    "document",
    [
        body(Pod=POD, NodeNameToMetaVictims={"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}}),
        body(pod=POD, nodenametometavictims={"n": {"pods": [{"uid": "u"}], "numpdbviolations": 2}}),
        body(Pod=POD, NodeNameToVictims={"n": {"Pods": [{"metadata": {"uid": "u"}}], "NumPDBViolations": 2}}),
    ],
    ids=["UIDs", "lower case", "whole pods"],
)
def test_decode_victims(document):
    assert decode_preemption_args(document).candidates == {"n": MetaVictims([MetaPod("u")], 2)}


@cases(
    ("victims", "path"),
    {
        "victims are an array": ([], "NodeNameToMetaVictims[n]"),
        "Pods is an object": ({"Pods": {}}, "NodeNameToMetaVictims[n].Pods"),
        "a pod without UID": ({"Pods": [{}]}, "NodeNameToMetaVictims[n].Pods[0]"),
        "a UID is a number": ({"Pods": [{"UID": 1}]}, "NodeNameToMetaVictims[n].Pods[0].UID"),
        "beyond int64": ({"NumPDBViolations": 2**63}, "NodeNameToMetaVictims[n].NumPDBViolations"),
    },
)
def test_invalid_victims_are_rejected(victims, path):
    with pytest.raises(FieldError) as caught:
        decode_preemption_args(body(Pod=POD, NodeNameToMetaVictims={"n": victims}))
    assert caught.value.path == path


def test_names_count_if_the_list_of_nodes_is_null():
    args = decode_args(
        json.dumps({"Pod": pod(), "Nodes": {"metadata": {}, "items": None}, "NodeNames": ["a"]}).encode()
    )
    assert (args.names, args.nodes) == (["a"], [])
