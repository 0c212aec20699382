"""Servers in a network namespace with IPv4 and IPv6 addresses, as a pod of a dual-stack cluster has them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network namespace"),
]

INSIDE: Final = Path(__file__).with_name("two_families.py")
LIMIT_S: Final = 120


def reached(*words: str) -> dict[str, dict[str, bool]]:
    """Start a server in a namespace of its own. Return which addresses of its two ports answer."""
    command = ["unshare", "--net", sys.executable, str(INSIDE), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


BOTH: Final = {"192.0.2.7": True, "2001:db8::7": True}


def test_all_addresses_of_both_families_answer() -> None:
    """Kubelet probes by the first family of the cluster, the API server calls by either."""
    assert reached("[::]") == {"https": BOTH, "probes": BOTH}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("0.0.0.0", {"192.0.2.7": True, "2001:db8::7": False}, id="IPv4 only"),  # noqa: S104 - a bind
        pytest.param("[2001:db8::7]", {"192.0.2.7": False, "2001:db8::7": True}, id="one IPv6 address"),
    ],
)
def test_one_family_can_be_chosen(host: str, expected: dict[str, bool]) -> None:
    assert reached(host) == {"https": expected, "probes": expected}


def test_the_default_of_the_chart_serves_on_a_node_without_ipv6() -> None:
    only_ipv4 = {"192.0.2.7": True}
    assert reached("[::]", "--without-ipv6") == {"https": only_ipv4, "probes": only_ipv4}
