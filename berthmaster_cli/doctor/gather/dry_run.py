"""Creates policies as dry runs: the API server reviews them and stores nothing."""

import re
from collections.abc import Callable
from typing import Any, Final

from berthmaster.kube import requests
from berthmaster.kube.client import read_body
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import KNOWN, DryRunFacts
from berthmaster_cli.doctor.gather.client import DoctorClient, decode

TRIES: Final = 5
"""How often the good policy is created: the slowest of several shows how long the webhook may take."""
_POLICY_API: Final = "policy.karmada.io/v1alpha1"
_POLICIES: Final = requests.Collection.of(_POLICY_API, "propagationpolicies")
_CLUSTER_POLICIES: Final = requests.Collection.of(_POLICY_API, "clusterpropagationpolicies")
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 7234, section 5.5


def dry_run(request: requests.APIRequest) -> requests.APIRequest:
    """Return the same request with ``dryRun=All``, so that the API server stores nothing."""
    return request._replace(query=(*request.query, ("dryRun", "All")))


def try_policies(client: DoctorClient, namespace: str, monotonic_s: Callable[[], float]) -> DryRunFacts:
    """Create a good policy several times and a bad one once, as dry runs: the API server stores nothing."""
    request = dry_run(requests.create(_POLICIES, namespace, KNOWN.trials["good"]))
    took_s = []
    for _ in range(TRIES):
        started_s = monotonic_s()
        try:
            policy = client.read(request)
        except ApiError as error:
            return DryRunFacts(None, str(error), error.status, (monotonic_s() - started_s,), bad_tried=False)
        took_s.append(monotonic_s() - started_s)
    problem, warnings = "", list[str]()
    try:
        with client.send(dry_run(requests.create(_CLUSTER_POLICIES, "", KNOWN.trials["bad"]))) as response:
            warnings = [found for line in response.header("Warning") for found in _WARNING.findall(line)]
            decode(dict[str, Any], read_body(response))
    except ApiError as error:
        problem, warnings = str(error), []
    return DryRunFacts(policy=policy, took_s=tuple(took_s), bad_problem=problem, bad_warnings=tuple(warnings))
