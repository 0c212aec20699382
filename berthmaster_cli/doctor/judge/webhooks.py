"""Webhook configurations: whether ours are there, once each, and whether their settings go together."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from berthmaster.model.errors import InputError
from berthmaster_cli.doctor.facts import Facts, Hook, Setup, Trial, Unknown, Workload
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning
from berthmaster_cli.doctor.judge.call_failures import called, cause_of, denied_by
from certs.registration import endpoint_of
from webhook.admission.reviews import ROUTES

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
MARGIN_S: Final = 1.0
"""How much of timeoutSeconds the slowest try leaves at least, though it holds two calls, one of each configuration."""
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_PERMANENT_ID: Final = "propagationpolicy.karmada.io/permanent-id"
_RULE: Final = "preemption-without-namespace"
_TRIAL: Final = "admission/trial"


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


def admission(facts: Facts) -> Iterator[Finding]:
    """The policy that should pass, then the one that should not."""
    if facts.trial is None or facts.hooks is None:
        return
    hooks = () if isinstance(facts.hooks, Unknown) else facts.hooks
    if isinstance(facts.trial, Unknown):
        remedy = f"See what keeps the API server busy: {facts.setup.target} get --raw /readyz?verbose"
        yield failed(_TRIAL, f"a policy on trial got no answer: {facts.trial.problem}", remedy)
        return
    if facts.trial.stored is None:
        yield _refusal(facts.trial, hooks, facts.setup)
        return
    yield from _passed(facts.trial, facts.trial.stored, hooks, facts.setup)


def _refusal(trial: Trial, hooks: Sequence[Hook], setup: Setup) -> Finding:
    problem = trial.problem
    if name := called(problem):
        # Configurations that may not be read do not say where it is; by its name it is known all the same.
        unread = Hook("", "", name, f"https://{setup.release}-webhook.{setup.namespace}.svc:443/")
        hook = next((each for each in hooks if each.name == name), unread)
        if hook.ours:
            cause = cause_of(problem, hook, setup)
            return failed(f"{_TRIAL}-{cause.name}", f"{cause.told}, so policies are refused", cause.remedy)
        remedy = f"Repair that webhook, or remove what registers it: {setup.target} get mutatingwebhookconfigurations"
        return failed(_TRIAL, f"another webhook, {name}, cannot be called, so policies are refused", remedy)
    if name := denied_by(problem):
        remedy = f"See why {name} refuses a plain policy, or try another namespace with --trial-namespace"
        return failed(_TRIAL, f"{name} refuses a plain policy: {_end(problem)}", remedy)
    if trial.status == _FORBIDDEN:
        remedy = f"Run this as a user who may create policies: {setup.target} auth can-i create propagationpolicies"
        return skipped(_TRIAL, "this user may not create policies, not even on trial", remedy)
    if trial.status == _NOT_FOUND:
        remedy = "Install Karmada's definitions first (see definitions), or name a namespace with --trial-namespace"
        return skipped(_TRIAL, "policies cannot be tried: there is no such kind, or no such namespace", remedy)
    remedy = f"Try one by hand and read the whole answer: {setup.target} create --dry-run=server -f POLICY"
    return failed(_TRIAL, f"a policy on trial is refused: {_end(problem)}", remedy)


def _passed(trial: Trial, stored: Any, hooks: Sequence[Hook], setup: Setup) -> Iterator[Finding]:  # noqa: ANN401 - JSON
    ours = [hook for hook in hooks if hook.ours]
    yield _times(trial, ours, setup)
    if not ours:
        return
    yield _defaults(stored, ours, setup)
    yield _identity(stored, setup)
    if trial.bad_tried:
        yield _refused(trial, ours, setup)


def _times(trial: Trial, ours: Sequence[Hook], setup: Setup) -> Finding:
    slowest_s = max(trial.took_s)
    told = f"a policy passes in {_ms(min(trial.took_s))} to {_ms(slowest_s)}"
    limit_s = min((hook.timeout_s for hook in ours), default=None)
    if limit_s is not None and slowest_s > limit_s - MARGIN_S:
        remedy = f"Give the webhook more CPU or time: {setup.upgrade} --set webhook.timeoutSeconds={slowest_s + 2:.0f}"
        return warning(f"{_TRIAL}-time", f"{told}, and the API server waits {limit_s:g} s at most", remedy)
    return ok(_TRIAL, told)


def _defaults(stored: Any, ours: Sequence[Hook], setup: Setup) -> Finding:  # noqa: ANN401 - JSON
    check = "admission/defaults"
    spec = stored.get("spec") or {}
    constraints = (spec.get("placement") or {}).get("spreadConstraints") or [{}]
    arrived = constraints[0].get("spreadByField") == "cluster" and constraints[0].get("minGroups") == 1
    if arrived and spec.get("preemption") == "Never" and spec.get("priority") == 0:
        return ok(check, "defaults arrive")
    if any(hook.narrowed for hook in ours):
        remedy = (
            "Name a namespace whose policies are reviewed with --trial-namespace, or widen webhook.namespaceSelector"
        )
        return warning(check, f"no defaults arrive in {setup.trial_namespace}, which selectors may leave out", remedy)
    remedy = f"See whether the API server calls it: {setup.in_release} logs deploy/{setup.release}-webhook"
    return failed(check, "policies are stored without defaults: the webhook is not asked, or is away", remedy)


def _identity(stored: Any, setup: Setup) -> Finding:  # noqa: ANN401 - JSON
    """Karmada's controllers know policies by that label, which one webhook has to give."""
    check = "admission/permanent-id"
    if (stored.get("metadata", {}).get("labels") or {}).get(_PERMANENT_ID):
        return ok(check, "policies get their permanent id")
    remedy = (
        f"Run karmada-webhook too, or have ours do its work: helm upgrade {setup.release} charts/berthmaster "
        "--reuse-values --set webhook.mode=standalone"
    )
    return failed(check, "nobody gives policies the permanent id that Karmada's controllers look for", remedy)


def _refused(trial: Trial, ours: Sequence[Hook], setup: Setup) -> Finding:
    check = "admission/rules"
    name = denied_by(trial.bad_problem)
    if name in {hook.name for hook in ours}:
        return ok(check, "a policy against the rules is refused")
    if any(_RULE in each for each in trial.bad_warnings):
        return ok(check, "a policy against the rules gets a warning")
    if trial.bad_problem:
        who = name or "the API server"
        return warning(check, f"{who} refuses the policy against the rules before ours does: {_end(trial.bad_problem)}",
                       f"See why: {setup.target} get validatingwebhookconfigurations")  # fmt: skip
    remedy = f"Turn the rule on again unless it is off on purpose: webhook.rules.{_RULE} in the chart's values"
    return warning(check, f"a policy against the rule {_RULE} is accepted", remedy)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _end(problem: str) -> str:
    """The telling part of a refusal."""
    text = problem.rpartition("denied the request: ")[2]
    return text if len(text) <= 160 else f"{text[:159]}…"
