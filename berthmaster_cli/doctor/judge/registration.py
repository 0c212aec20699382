"""Webhook configurations: whether ours are there, once each, and whether their settings go together."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berthmaster.model.errors import InputError
from berthmaster_cli.doctor.facts import Facts, Hook, Setup, Unknown, Workload
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning
from certs.reachability import endpoint_of
from webhook.admission.routes import ROUTES

SHORTEST_S: Final = 2.0
"""Less leaves no time for a new connection to a busy machine."""
LONGEST_S: Final = 10.0
"""More keeps every write to a policy waiting while the webhook is away."""
_GROUPS: Final = frozenset({"policy.karmada.io", "apps.karmada.io"})
WANTED: Final = {path: route for path, route in ROUTES.items() if route.group in _GROUPS}
_PLURALS: Final = {
    "PropagationPolicy": "propagationpolicies", "ClusterPropagationPolicy": "clusterpropagationpolicies",
    "WorkloadRebalancer": "workloadrebalancers",
}  # fmt: skip


def registration(facts: Facts) -> Iterator[Finding]:
    """Everything about the configurations."""
    setup = facts.setup
    if facts.hooks is None:
        return
    if isinstance(facts.hooks, Unknown):
        remedy = (
            f"Run this as a user who may list them: {facts.setup.target} auth can-i list mutatingwebhookconfigurations"
        )
        yield skipped("registration/present", f"webhook configurations cannot be read: {facts.hooks.problem}", remedy)
        return
    ours = [hook for hook in facts.hooks if hook.ours]
    if not ours:
        remedy = f"Register it: {setup.upgrade} --set webhook.enabled=true --set registration.enabled=true"
        yield failed("registration/present", "no webhook of Berthmaster's is registered", remedy)
        return
    yield from _coverage(ours, facts.setup)
    yield from _copies(ours, facts.setup)
    yield from _forms(ours, facts.setup)
    yield _failure_policy(ours, facts.setup)
    yield _timeouts(ours, facts.setup)
    yield from _request_timeout(ours, facts.workloads, facts.setup)


def _coverage(ours: Sequence[Hook], setup: Setup) -> Iterator[Finding]:
    covered = {(hook.path, resource) for hook in ours for resource in hook.resources}
    missing = [path for path, route in WANTED.items() if (path, f"{_PLURALS[route.kind]}.{route.group}") not in covered]
    if missing:
        told = f"the API server does not ask about {', '.join(missing)}"
        yield warning("registration/present", told, f"Register the webhooks of this release: {setup.upgrade}")
    else:
        yield ok("registration/present", f"{len(ours)} webhooks of ours are registered")


def _copies(ours: Sequence[Hook], setup: Setup) -> Iterator[Finding]:
    """Two releases review each policy twice; when one of them goes, its configuration refuses everything."""
    by_review = defaultdict(list)
    for hook in ours:
        for resource in hook.resources:
            by_review[hook.kind, resource].append(hook)
    twice = next((hooks for hooks in by_review.values() if len(hooks) > 1), None)
    if twice is None:
        return
    surplus = next((hook for hook in twice if hook.configuration != setup.release), twice[-1])
    told = f"{_list(dict.fromkeys(f'{each.configuration}/{each.name}' for each in twice))} review the same objects"
    remedy = f"Remove the one that no release owns: {setup.target} delete {surplus.kind} {surplus.configuration}"
    yield failed("registration/once", told, remedy)


def _forms(ours: Sequence[Hook], setup: Setup) -> Iterator[Finding]:
    check = "registration/url"
    wrong = [hook for hook in ours if _unreadable(hook.url)]
    if wrong:
        told = f"{wrong[0].configuration}/{wrong[0].name} has no URL that can be called: {wrong[0].url!r}"
        yield failed(check, told, f"Register the webhooks of this release: {setup.upgrade}")
        return
    if any(hook.is_service for hook in ours) and not setup.single:
        told = "webhooks are registered by a Service, which the target API server does not have"
        yield failed(check, told, f"Register them by URL: {setup.upgrade} --set registration.clientConfig=url")
        return
    yield ok(check, f"they are called at {_list(dict.fromkeys(endpoint_of(hook.url).host for hook in ours))}")


def _failure_policy(ours: Sequence[Hook], setup: Setup) -> Finding:
    check = "registration/failure-policy"
    open_ = [hook.name for hook in ours if not hook.fails_closed]
    if open_:
        told = f"while the webhook is away, policies pass unseen: {_list(dict.fromkeys(open_))}"
        return warning(
            check, told, f"Close it once the webhook answers: {setup.upgrade} --set webhook.failurePolicy=Fail"
        )
    return ok(check, "no policy passes unseen")


def _timeouts(ours: Sequence[Hook], setup: Setup) -> Finding:
    check = "registration/timeout"
    shortest, longest = min(hook.timeout_s for hook in ours), max(hook.timeout_s for hook in ours)
    remedy = f"Set it to 3: {setup.upgrade} --set webhook.timeoutSeconds=3"
    if shortest < SHORTEST_S:
        return warning(check, f"timeoutSeconds is {shortest:g}: a busy moment refuses a policy", remedy)
    if longest > LONGEST_S:
        return warning(check, f"timeoutSeconds is {longest:g}: writes wait so long while the webhook is away", remedy)
    return ok(check, f"timeoutSeconds is {shortest:g}")


def _request_timeout(
    ours: Sequence[Hook], workloads: Sequence[Workload] | Unknown | None, setup: Setup
) -> Iterator[Finding]:
    """The webhook has to give up before the API server does, or nobody learns why."""
    if workloads is None or isinstance(workloads, Unknown):
        return
    timeout_s = min(hook.timeout_s for hook in ours)
    for workload in workloads:
        own_s = _seconds(workload.option("request-timeout-s", "2.5"))
        if workload.component == "webhook" and own_s is not None and own_s >= timeout_s:
            told = f"{workload.name} works on a review for up to {own_s:g} s, and the API server waits {timeout_s:g} s"
            remedy = f"Set it below: {setup.upgrade} --set webhook.requestTimeoutSeconds={timeout_s - 0.5:g}"
            yield failed("registration/request-timeout", told, remedy)


def _unreadable(url: str) -> bool:
    try:
        endpoint_of(url)
    except InputError:
        return True
    return False


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
