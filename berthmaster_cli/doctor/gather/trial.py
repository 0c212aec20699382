"""Policies that are created on trial: the API server does all that it does for real ones, and stores nothing."""

import re
from collections.abc import Callable
from typing import Any, Final

from berthmaster.kube.requests import Collection, Request, create
from berthmaster.kube.transport import ask, body_of
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import Trial
from berthmaster_cli.doctor.gather.asking import Asker, on_trial, read_as

TRIES: Final = 5
_API: Final = "policy.karmada.io/v1alpha1"
_POLICIES: Final = Collection.of(_API, "propagationpolicies")
_CLUSTER_POLICIES: Final = Collection.of(_API, "clusterpropagationpolicies")
_METADATA: Final = {"generateName": "berthmaster-doctor-"}
_SELECTOR: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "berthmaster-doctor"}
# What the schema has no default for, and every webhook for policies has: spreadByField and minGroups.
GOOD: Final[dict[str, Any]] = {
    "apiVersion": _API,
    "kind": "PropagationPolicy",
    "metadata": _METADATA,
    "spec": {"resourceSelectors": [_SELECTOR], "placement": {"spreadConstraints": [{"maxGroups": 2}]}},
}
# Acceptable to karmada-webhook; against our rule preemption-without-namespace.
BAD: Final[dict[str, Any]] = {
    "apiVersion": _API,
    "kind": "ClusterPropagationPolicy",
    "metadata": _METADATA,
    "spec": {"resourceSelectors": [_SELECTOR], "preemption": "Always", "priority": 1},
}
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 7234, section 5.5


def trial(asker: Asker, namespace: str, monotonic_s: Callable[[], float]) -> Trial:
    """Try a good policy several times, and a bad one once."""
    request = on_trial(create(_POLICIES, namespace, GOOD))._replace(silence_s=asker.silence_s)
    took_s = []
    for _ in range(TRIES):
        started_s = monotonic_s()
        try:
            body = ask(asker.connection, request)
        except ApiError as error:
            return Trial(None, str(error), error.status, (monotonic_s() - started_s,), bad_tried=False)
        took_s.append(monotonic_s() - started_s)
    problem, warnings = _bad(asker)
    return Trial(
        stored=decode_json(dict[str, Any], body),
        took_s=tuple(took_s),
        bad_problem=problem,
        bad_warnings=warnings,
    )


def _bad(asker: Asker) -> tuple[str, tuple[str, ...]]:
    request: Request = on_trial(create(_CLUSTER_POLICIES, "", BAD))
    try:
        with asker.send(request) as answer:
            lines = answer.header("Warning")
            read_as(dict[str, Any], body_of(answer))
    except ApiError as error:
        return str(error), ()
    return "", tuple(found for line in lines for found in _WARNING.findall(line))
