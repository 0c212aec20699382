"""Attack the gate blast-radius: ``make bench-gate``.

A webhook and an extender run as processes of their own. The extender has 10,000 workloads on 1,000 clusters. Reviews
are sent to the webhook as an API server sends them, with its default limits and timeouts.

1. Policies that hold 60 to 5,000 workloads and would move all of them are refused, and how long that takes. One of
   them is a ClusterPropagationPolicy.
2. Three large dry runs do not switch the gate off.
3. Sixteen clients dry-run and plan the largest change without pause. Meanwhile no change above a limit passes, and
   changes within the limits are judged.
4. Sixteen clients of one user dry-run the largest change without pause. Meanwhile changes within the limits of other
   users are judged, on policies that hold 40 and 1,000 workloads.
5. Sixteen clients ask ``/v1/plan`` about a lost cluster and ``/v1/resilience`` without pause. Meanwhile changes within
   the limits are judged, and how long that takes.
6. The plan of the largest change can be accepted.
"""

import concurrent.futures
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import click
from served import Client, Server, post, reviewing, running

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from karmada_plane import DIVIDED, binding, cluster, deployment, policy, selector

SIZES: Final = (60, 100, 200, 250, 400, 1024, 2000)
"""How many workloads the policies hold. One more holds the rest."""
MEASURED: Final = 1000
"""The size of the policy for the 95th percentile."""
CLUSTER_WIDE: Final = 300
"""The size of the ClusterPropagationPolicy."""
WITHIN: Final = 40
"""The size of the policy whose changes are within the limits."""
P95_MS: Final = 150
DEFAULT_TIMEOUT_S: Final = 2.5
HOSTILE: Final = 16
CHANGES: Final = 100
JUDGED: Final = 95
OTHERS: Final = 25
"""How many changes of each size other users make beside the dry runs of one user."""
UNJUDGED: Final = "not judged"
JSON = dict[str, Any]


class Held(NamedTuple):
    """A policy, the namespace of the same name with its workloads, and where they may go."""

    name: str
    workloads: int

    @property
    def scope(self) -> str:
        """The namespace of the policy; empty for a ClusterPropagationPolicy."""
        return "" if self.workloads == CLUSTER_WIDE else self.name

    def policy(self, *, moves: bool, number: int = 0) -> JSON:
        """Return the policy as it is stored, or with an edit that moves everything. Edits of other numbers differ."""
        affinity = {"labelSelector": {"matchLabels": {"half": "there" if moves else "here"}}}
        if number:
            affinity["exclude"] = [f"member{number}"]
        placement = {**DIVIDED, "clusterAffinity": affinity}
        return policy(self.name, selector(namespace=self.name), namespace=self.scope, placement=placement)


class Verdict(NamedTuple):
    """The answer to a review."""

    allowed: bool
    text: str
    seconds: float


def fleet(workloads: int, clusters: int) -> tuple[list[Held], Iterator[JSON]]:
    """Return the policies, and all objects."""
    here = [f"member{number}" for number in range(clusters // 2)]
    there = [f"member{number}" for number in range(clusters // 2, clusters)]
    sizes = [*SIZES, MEASURED, CLUSTER_WIDE, WITHIN]
    sizes.append(workloads - sum(sizes))
    held = [Held(f"held{size}", size) for size in sizes if size > 0]

    def objects() -> Iterator[JSON]:
        yield from (cluster(name, 1000, half="here") for name in here)
        yield from (cluster(name, 1000, half="there") for name in there)
        for each in held:
            stored = each.policy(moves=False)
            yield stored
            for number in range(each.workloads):
                template = deployment(f"app{number}", 4, namespace=each.name, by=stored)
                template["metadata"].pop("managedFields")
                yield template
                yield binding(template, stored, **{here[(number + step) % len(here)]: 2 for step in (0, 7)})

    return held, objects()


def review(held: Held, changed: JSON, *, user: str, dry_run: bool = False) -> bytes:
    """Return the request of an API server for an update of a policy."""
    kind = {"group": "policy.karmada.io", "version": "v1alpha1", "kind": changed["kind"]}
    resource = "propagationpolicies" if held.scope else "clusterpropagationpolicies"
    request = {
        "uid": "705ab4f5", "kind": kind, "requestKind": kind, "namespace": held.scope, "name": held.name,
        "operation": "UPDATE", "userInfo": {"username": user}, "dryRun": dry_run, "object": changed,
        "oldObject": held.policy(moves=False),
        "resource": {"group": "policy.karmada.io", "version": "v1alpha1", "resource": resource},
    }  # fmt: skip
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return post(f"/impact-{changed['kind'].lower()}", json.dumps(body).encode())


class ReviewClient:
    """A connection to the webhook. One that the webhook closed is replaced, as an API server does."""

    def __init__(self, webhook: Server) -> None:
        self._webhook = webhook
        self._client = Client(webhook)

    def ask(self, request: bytes) -> bytes:
        """Send a request and return the body of the answer."""
        try:
            return self._client.ask(request)
        except OSError:
            self.close()
            self._client = Client(self._webhook)
            return self._client.ask(request)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def judged(client: ReviewClient, request: bytes) -> Verdict:
    """Send a review."""
    begun_s = time.perf_counter()
    response = json.loads(client.ask(request))["response"]
    text = (response.get("status") or {}).get("message") or " | ".join(response.get("warnings") or ())
    return Verdict(response["allowed"], text, time.perf_counter() - begun_s)


class Attack:
    """Clients that send requests without pause, in threads of their own."""

    def __init__(self, server: Server, requests: list[bytes]) -> None:
        self._server = server
        self._stop = threading.Event()
        self.sent = 0
        self._threads = [threading.Thread(target=self._send, args=(each,)) for each in requests]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    def _send(self, request: bytes) -> None:
        while not self._stop.is_set():
            try:
                with closing(Client(self._server)) as client:
                    while not self._stop.is_set():
                        client.ask(request)
                        self.sent += 1
            except (OSError, RuntimeError, ValueError):
                time.sleep(0.05)  # a refusal: the next connection


def expect(problems: list[str], holds: bool, what: str) -> None:  # noqa: FBT001 - the condition itself
    """Print what was found, and keep it if it must not be."""
    print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)
    if not holds:
        problems.append(what)


def each_size(problems: list[str], client: ReviewClient, held: list[Held]) -> None:
    """Show that changes of all sizes are refused."""
    for each in sorted(held, key=lambda one: one.workloads):
        if each.workloads == WITHIN:
            continue
        taken = [judged(client, review(each, each.policy(moves=True, number=n), user="alice")) for n in range(3)]
        refused = all(not one.allowed and "workloads move, at most 50 may" in one.text for one in taken)
        slowest_s = max(one.seconds for one in taken)
        text = f"{each.workloads} workloads move: refused 3 times, at most {slowest_s * 1000:.0f} ms"
        expect(problems, refused and slowest_s < DEFAULT_TIMEOUT_S, text if refused else f"{text}: {taken[0]}")


def measured(problems: list[str], client: ReviewClient, held: Held, reviews: int) -> None:
    """Show the times of reviews that move 1,000 workloads."""
    taken = [judged(client, review(held, held.policy(moves=True, number=n), user="alice")) for n in range(reviews)]
    p95_ms = statistics.quantiles([one.seconds * 1000 for one in taken], n=20)[18]
    median_ms = statistics.median(one.seconds for one in taken) * 1000
    expect(
        problems,
        p95_ms < P95_MS and not any(one.allowed for one in taken),
        f"a review that moves {MEASURED}: {median_ms:.0f} ms in the median, {p95_ms:.0f} ms at the 95th percentile",
    )


def many(server: Server, requests: list[bytes]) -> list[Verdict]:
    """Send reviews over four connections."""

    def send(some: list[bytes]) -> list[Verdict]:
        with closing(ReviewClient(server)) as client:
            return [judged(client, each) for each in some]

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        return [each for found in threads.map(send, [requests[number::4] for number in range(4)]) for each in found]


def beside_attackers(problems: list[str], webhook: Server, extender: Server, held: dict[int, Held]) -> None:
    """Show that others cannot switch the gate off."""
    largest = held[max(held)]
    dry = [
        review(largest, largest.policy(moves=True, number=n), user=f"mallory{n}", dry_run=True)
        for n in range(HOSTILE // 2)
    ]
    plan = post("/v1/plan", json.dumps({"update": [largest.policy(moves=True)], "limit": 3}).encode())
    above = [review(held[200], held[200].policy(moves=True, number=n), user=f"user{n % 5}") for n in range(CHANGES)]
    within = [
        review(held[WITHIN], held[WITHIN].policy(moves=True, number=n), user=f"user{n % 5}") for n in range(CHANGES)
    ]
    with Attack(webhook, dry) as dry_runs, Attack(extender, [plan] * (HOSTILE // 2)) as plans:
        time.sleep(2)
        passed = [each for each in many(webhook, above) if each.allowed]
        answers = many(webhook, within)
    known = [each for each in answers if each.allowed and "workloads move" in each.text]
    slowest_ms = statistics.quantiles([each.seconds * 1000 for each in answers], n=20)[18]
    beside = f"beside {HOSTILE} clients ({dry_runs.sent} dry runs, {plans.sent} plans)"
    expect(problems, not passed, f"{beside}: {len(passed)} of {CHANGES} changes above a limit pass {passed[:1]}")
    missed = next((each for each in answers if each not in known), "")
    expect(
        problems,
        len(known) >= JUDGED,
        f"{beside}: {len(known)} of {CHANGES} changes within limits are judged, 95% in {slowest_ms:.0f} ms {missed}",
    )


def beside_one_user(problems: list[str], webhook: Server, held: dict[int, Held]) -> None:
    """Show that dry runs of one user refuse no changes of others."""
    largest = held[max(held)]
    dry = [review(largest, largest.policy(moves=True, number=n), user="mallory", dry_run=True) for n in range(HOSTILE)]
    within = [
        review(held[size], held[size].policy(moves=size == WITHIN, number=n), user=f"user{n % 5}")
        for n in range(OTHERS)
        for size in (WITHIN, MEASURED)
    ]
    with Attack(webhook, dry) as dry_runs:
        time.sleep(2)
        with closing(ReviewClient(webhook)) as client:
            answers = [judged(client, each) for each in within]
    for number, size in enumerate((WITHIN, MEASURED)):
        found = answers[number::2]
        known = [each for each in found if each.allowed and UNJUDGED not in each.text]
        missed = next((each for each in found if each not in known), "")
        what = f"{len(known)} of {OTHERS} changes of others within limits, of a policy that holds {size}"
        expect(
            problems,
            len(known) >= OTHERS - 1,
            f"beside {HOSTILE} clients of one user ({dry_runs.sent} dry runs): {what}, are judged {missed}",
        )


def beside_simulations(problems: list[str], webhook: Server, extender: Server, held: Held) -> None:
    """Show that changes within the limits are judged beside people who simulate and ask about failures."""
    down = json.dumps({"changes": [{"type": "down", "cluster": "member0"}]}).encode()
    failures = b"GET /v1/resilience?by=cluster HTTP/1.1\r\nHost: localhost\r\n\r\n"
    asked = [post("/v1/plan", down), failures] * (HOSTILE // 2)
    within = [review(held, held.policy(moves=True, number=n), user=f"user{n % 5}") for n in range(CHANGES)]
    with Attack(extender, asked) as questions:
        time.sleep(2)
        answers = many(webhook, within)
    known = sum(each.allowed and "workloads move" in each.text for each in answers)
    times_ms = statistics.quantiles([each.seconds * 1000 for each in answers], n=100)
    beside = f"beside {HOSTILE} clients that simulate and ask about failures ({questions.sent} answers)"
    times = f"{times_ms[49]:.0f} ms in the median, {times_ms[98]:.0f} ms at the 99th percentile"
    expect(problems, known >= JUDGED, f"{beside}: {known} of {CHANGES} judged, {times}")


def after_dry_runs(problems: list[str], webhook: Server, client: ReviewClient, held: dict[int, Held]) -> None:
    """Show that three large dry runs change nothing for another user."""
    largest = held[max(held)]
    many(webhook, [review(largest, largest.policy(moves=True, number=n), user="m", dry_run=True) for n in range(3)])
    found = judged(client, review(held[100], held[100].policy(moves=True), user="alice"))
    expect(problems, not found.allowed, f"after three large dry runs: refused in {found.seconds * 1000:.0f} ms")


def accepted(problems: list[str], extender: Server, client: ReviewClient, held: Held, within_s: float) -> None:
    """Show that the largest plan can be accepted by its id."""
    changed = held.policy(moves=True)
    begun_s = time.monotonic()
    request = {"update": [changed], "limit": 1, "timeoutMs": 20_000}
    plan = ""
    for _ in range(5):  # plans of the attack may still run
        with contextlib.suppress(OSError, RuntimeError), closing(Client(extender)) as asking:
            plan = json.loads(asking.ask(post("/v1/plan", json.dumps(request).encode())))["plan"]["id"]
            break
    planned_s = time.monotonic() - begun_s
    annotated = {
        **changed,
        "metadata": {**changed["metadata"], "annotations": {"policy.berthmaster.io/accept-plan": plan}},
    }
    tries, found, until_s = 0, Verdict(allowed=False, text="", seconds=0.0), time.monotonic() + within_s
    while time.monotonic() < until_s:
        tries += 1
        found = judged(client, review(held, annotated, user="alice"))
        if found.allowed:
            break
        time.sleep(1)
    what = f"a plan that moves {held.workloads} ({planned_s:.1f} s) is accepted at try {tries}"
    expect(problems, found.allowed, what if found.allowed else f"{what}: {found}")


@click.command()
@click.option("--workloads", default=10_000, show_default=True, help="The number of workloads.")
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters.")
@click.option("--reviews", default=40, show_default=True, help="The number of reviews for the 95th percentile.")
def main(workloads: int, clusters: int, reviews: int) -> None:
    """Attack the gate. The status is 1 if it does not hold."""
    held, objects = fleet(workloads, clusters)
    problems: list[str] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        Path(folder, "fleet.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        options = ("-f", folder, "--request-timeout-s", "20")
        extender = stack.enter_context(running("extender", *options))
        webhook = stack.enter_context(
            reviewing(f"--impact-url=http://127.0.0.1:{extender.port}", "--rule=blast-radius=deny")
        )
        client = stack.enter_context(closing(ReviewClient(webhook)))
        by_size = {each.workloads: each for each in held}
        within = by_size[WITHIN]

        def first() -> bool:
            return "workloads move" in judged(client, review(within, within.policy(moves=True), user="alice")).text

        wait_for(first)
        each_size(problems, client, held)
        measured(problems, client, by_size[MEASURED], reviews)
        after_dry_runs(problems, webhook, client, by_size)
        beside_attackers(problems, webhook, extender, by_size)
        beside_one_user(problems, webhook, by_size)
        beside_simulations(problems, webhook, extender, within)
        accepted(problems, extender, client, by_size[max(by_size)], 60)
        print(f"extender: {extender.memory_mib():.0f} MiB, webhook: {webhook.memory_mib():.0f} MiB")
    sys.exit(1 if problems else 0)


def wait_for(check: Callable[[], bool]) -> None:
    """Wait until the first review is judged: the extender builds its index."""
    until_s = time.monotonic() + 60
    while not check():
        if time.monotonic() > until_s:
            raise click.ClickException("the extender judges no review")
        time.sleep(0.5)


if __name__ == "__main__":
    main()
