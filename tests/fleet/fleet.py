"""A fleet: a host API server with Karmada or the model of it, member clusters that run pods, and Berthmaster."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import yaml
from access_rules import role_rule
from e2e.api import RefusedError
from e2e.control_plane import ControlPlane
from e2e.processes import Processes, wait_for
from e2e.serving import Serving, start_controllers
from fleet.member import BESIDE, KINDS, SPACE, Member, Pods, finish_pods
from fleet.observer import Observer
from kube_store import JSON

from berthmaster.controllers.rbac import rules_of
from berthmaster.ledger.reader import LedgerReader
from berthmaster.ledger.records import HistoryRow, Query
from berthmaster.model.move import DRAINING, UNDER_WAY
from berthmaster.model.work import PERMANENT_ID

Value = TypeVar("Value")
LIMIT_S: Final = 180.0
POLL_S: Final = 0.3
MOVES: Final[Mapping[str, Any]] = {
    "failback": {"mode": "On", "after": "10s", "headroom": "0%"},
    "drain": {"mode": "On", "after": "0s", "headroom": "0%"},
    "soak": "5s",
    "deadline": "2m",
    "holdDown": {"initial": "30s", "max": "2m"},
    "brake": {"enabled": False},
}
"""The configuration of moves, unless a test states another one."""
TOLERATION_S: Final = 10
_WORKS: Final = "work.karmada.io/v1alpha1"
_UNDER_WAY: Final = {each.value for each in UNDER_WAY}
QUIET_S: Final = 60.0
"""How long a new leader begins no planned move."""


class Driver(Protocol):
    """What lets the copies in the members follow the bindings: Karmada, or the model of it.

    Attributes:
        real: whether it is Karmada.
    """

    real: bool

    def join(self, member: Member) -> None:
        """Make a member known, by its Secret and its Cluster."""

    def admitted(self, policy: JSON) -> JSON:
        """Return what must be created for a policy."""

    def kill(self, *flags: str) -> None:
        """Kill its controllers, and start them again. A real Karmada gets these flags after its usual ones."""

    def restart(self) -> None:
        """Kill all that watch the API server, and start them again."""

    def close(self) -> None:
        """Stop what the API server's processes do not include."""


class Fleet:
    """A running fleet.

    Attributes:
        host: the API server of Karmada.
        members: the member clusters by name.
        observer: writes the time line.
        driver: Karmada, or the model.
        controllers: the processes of Berthmaster.
        ledger: the URL of their ledger.
    """

    def __init__(self, folder: Path, names: Sequence[str], driver: Callable[[ControlPlane], Driver]) -> None:
        """Start it without Berthmaster.

        Args:
            folder: where logs and the time line are put.
            names: the names of the members.
            driver: starts Karmada or the model on an API server.
        """
        self.folder = folder
        (folder / "host").mkdir(parents=True)
        self._processes = Processes(folder / "host")
        self.members: dict[str, Member] = {}
        self._started: list[Member] = []
        self.controllers: list[Serving] = []
        self.ledger = f"sqlite:///{folder}/ledger.sqlite"
        self._options: tuple[tuple[str, ...], dict[str, Any]] = ((), {})
        self._access: Path | None = None
        self.observer: Observer | None = None
        self.driver: Driver | None = None
        try:
            self.host = ControlPlane(self._processes)
            self.driver = driver(self.host)
            with ThreadPoolExecutor(2) as starters:
                for member in starters.map(self._start, names):
                    self.members[member.name] = member
                    self.driver.join(member)
            self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
            for name in names:
                self.until(f"{name} is ready", lambda name=name: self.is_ready(name))
            self.observer = Observer(self.host, self.members.values(), folder / "timeline.jsonl")
        except BaseException:
            self.close()
            raise

    def _start(self, name: str) -> Member:
        """Start a member, and keep it for ``close`` also if nobody waits for it any more."""
        member = Member(name, self.folder / name)
        self._started.append(member)
        return member

    @property
    def api(self) -> Any:
        return self.host.api

    def close(self) -> None:
        if self.observer is not None:
            self.observer.close()
        if self.driver is not None:
            self.driver.close()
        for each in [*(member.processes for member in self._started), self._processes]:
            each.stop_all()

    # Berthmaster

    def berthmaster(self, *flags: str, **moves: Any) -> None:
        """Let one process of the controllers run. ``moves`` replaces parts of ``MOVES``.

        A process with the same options stays: a new leader begins no planned move for a minute.
        """
        content = {"apiVersion": "berthmaster.io/v1alpha1", "kind": "MovesConfiguration", **MOVES, **moves}
        if self.controllers and self._options == (flags, content):
            return
        self.kill_berthmaster()
        self._options = (flags, content)
        self.start_berthmaster()
        time.sleep(QUIET_S)

    def configure(self, **moves: Any) -> None:
        """Replace parts of ``MOVES`` in the file of the processes that run. Only the leader looks at it."""
        flags, content = self._options
        self._options = (flags, {**content, **moves})
        self._write_moves()

    def _write_moves(self) -> Path:
        config = self.folder / "moves.yaml"
        config.write_text(yaml.safe_dump(self._options[1]))
        return config

    def start_berthmaster(self) -> None:
        """Start a process of the controllers with the last options, beside those that run.

        Without further flags it has exactly the rights that it needs.
        """
        flags, _ = self._options
        config = self._write_moves()
        self.note("start", process="berthmaster")
        if self._access is None:
            rules = rules_of(["binding-scheduler"], moves=True)
            lease = "berthmaster-controllers"
            places = ((role_rule(each, lease), "default" if each.scope == "lease" else None) for each in rules)
            self._access = self.host.user("berthmaster", [*places])
        self.controllers.append(
            start_controllers(
                self._processes, self.host, "default",
                "--controllers=binding-scheduler", "--scheduler-name=berthmaster", "--failover=not-ready",
                f"--failover-toleration-s={TOLERATION_S}", f"--moves-config={config}",
                "--leader-elect-lease-s=8", "--leader-elect-renew-s=6", f"--ledger={self.ledger}", *flags,
                kubeconfig=None if flags else self._access,
            )
        )  # fmt: skip

    def keep_berthmaster(self) -> None:
        """Start a process if all have ended, as kubelet does. A leader that cannot renew its Lease in time ends."""
        self.controllers = [each for each in self.controllers if each.process.running]
        if not self.controllers:
            self.start_berthmaster()

    def kill_berthmaster(self) -> None:
        self.note("kill", process="berthmaster")
        for each in self.controllers:
            each.process.kill()
        self.controllers.clear()

    # What users do

    def run(
        self,
        app: str,
        replicas: int,
        *groups: Sequence[str],
        kind: str = "Deployment",
        strategy: str = "",
        cpu: str = "100m",
        duplicated: bool = False,
        grace_s: int = 5,
        policy_spec: JSON | None = None,
        labels: Mapping[str, str] | None = None,
        scheduler: str = "berthmaster",
        apart: bool = False,
        dynamic: bool = False,
        more: JSON | None = None,
        pod_spec: JSON | None = None,
    ) -> JSON:
        """Create a workload and its policy, with one group of clusters after the other. Return the workload.

        ``policy_spec`` has further fields of the policy; ``labels`` are further ones of the workload, ``more`` further
        fields of its spec, and ``pod_spec`` of its pods. With ``apart`` each node takes one pod. No estimator
        knows that, and as few clusters as possible get the replicas. With ``dynamic`` free capacities are the weights.
        """
        own = {"app": app}
        container = {
            "name": "main",
            "image": "registry.example/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
        }
        pod: JSON = {"containers": [container], "terminationGracePeriodSeconds": grace_s, **(pod_spec or {})}
        if apart:
            other = {"labelSelector": {"matchLabels": own}, "topologyKey": "kubernetes.io/hostname"}
            pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [other]}}
        spec: JSON = {"template": {"metadata": {"labels": own}, "spec": pod}}
        if kind == "Job":
            spec |= {"parallelism": replicas, "backoffLimit": 1000}
            pod["restartPolicy"] = "Never"
        else:
            spec["selector"] = {"matchLabels": own}
        if kind in ("Deployment", "StatefulSet"):
            spec["replicas"] = replicas
        if kind == "Deployment":
            spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        if kind == "StatefulSet":
            spec |= {"serviceName": app, "podManagementPolicy": "Parallel"}
        spec |= more or {}
        duplicated = duplicated or kind == "DaemonSet"
        workload = {
            "apiVersion": KINDS[kind],
            "kind": kind,
            "metadata": {"name": app, "namespace": SPACE, "labels": {**own, **(labels or {})}},
            "spec": spec,
        }
        division: JSON = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
        if apart or strategy == "BreakBeforeMake":
            division["replicaDivisionPreference"] = "Aggregated"
        if dynamic:
            division["weightPreference"] = {"dynamicWeight": "AvailableReplicas"}
        placement = {
            "clusterAffinities": terms(groups),
            "replicaScheduling": {"replicaSchedulingType": "Duplicated"} if duplicated else division,
        }
        annotations = {"policy.berthmaster.io/move-strategy": strategy} if strategy else {}
        policy = {
            **propagation_policy(app),
            "spec": {
                "resourceSelectors": [{"apiVersion": KINDS[kind], "kind": kind, "name": app}],
                "placement": placement,
                "schedulerName": scheduler,
            },
        }
        policy["spec"] |= policy_spec or {}
        policy["metadata"]["annotations"] = annotations
        about = {"replicas": replicas, "groups": list(groups), "strategy": strategy, "duplicated": duplicated}
        self.note("run", app=app, kind=kind, **about)
        self._create(self._admitted(policy))
        self._create(workload)
        return workload

    def edit(self, workload: JSON, **spec: Any) -> None:
        """Change the spec of a workload. The replicas of a Job are its parallelism."""
        self.note("edit", app=workload["metadata"]["name"], **spec)
        if workload["kind"] == "Job" and "replicas" in spec:
            spec["parallelism"] = spec.pop("replicas")
        self.api.patch(workload, {"spec": spec})

    def amend(self, app: str, **spec: Any) -> None:
        """Change the spec of a policy; None removes a field."""
        self.note("amend", app=app, **spec)
        self.api.patch(propagation_policy(app), {"spec": spec})

    def annotate(self, app: str, **annotations: str | None) -> None:
        """Change annotations of a policy. Their names are those of Berthmaster, with an underscore for a hyphen."""
        self.note("annotate", app=app, **annotations)
        named = {f"policy.berthmaster.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.api.patch(propagation_policy(app), {"metadata": {"annotations": named}})

    def place(self, app: str, *groups: Sequence[str]) -> None:
        self.note("place", app=app, groups=list(groups))
        self.api.patch(propagation_policy(app), {"spec": {"placement": {"clusterAffinities": terms(groups)}}})

    def preempt(self, workload: JSON, *groups: Sequence[str]) -> None:
        """Create a policy of a higher priority that takes a workload over."""
        app = workload["metadata"]["name"]
        self.note("preempt", app=app, groups=list(groups))
        ordinary = self.api.get(propagation_policy(app))
        spec = ordinary["spec"] | {"priority": 10, "preemption": "Always"}
        spec["placement"] = {**spec["placement"], "clusterAffinities": terms(groups)}
        policy = {**propagation_policy(_first(app)), "spec": spec}
        policy["metadata"]["annotations"] = ordinary["metadata"].get("annotations", {})
        self.api.create(self._admitted(policy))

    def yield_to_others(self, app: str) -> None:
        self.note("yield", app=app)
        self.api.delete(propagation_policy(_first(app)))

    def limit(self, cpu: str | None) -> None:
        """Limit the CPU of all workloads by a FederatedResourceQuota; None removes the limit. The model has none."""
        if not self.driver.real:
            return
        quota: JSON = {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "FederatedResourceQuota",
            "metadata": {"name": "limit", "namespace": SPACE},
        }
        self.note("limit" if cpu else "unlimit", cpu=cpu)
        if cpu is not None:
            self.api.create({**quota, "spec": {"overall": {"cpu": cpu}}})
        else:
            self.api.delete(quota)

    def rebalance(self, workload: JSON, name: str) -> None:
        self.note("rebalance", app=workload["metadata"]["name"])
        target = {"apiVersion": workload["apiVersion"], "kind": workload["kind"], "namespace": SPACE}
        self.api.create(
            {
                "apiVersion": "apps.karmada.io/v1alpha1",
                "kind": "WorkloadRebalancer",
                "metadata": {"name": name},
                "spec": {"workloads": [{**target, "name": workload["metadata"]["name"]}]},
            }
        )

    def remove(self, app: str, workload: JSON | None = None) -> None:
        self.note("delete", app=app, kind="policy" if workload is None else workload["kind"])
        self.api.delete(propagation_policy(app) if workload is None else workload)

    def finish(self, app: str, name: str) -> None:
        """Let all pods of an application in a cluster end well."""
        self.note("finish", app=app, cluster=name)
        finish_pods(self.members[name], app)

    def complete(self, workload: JSON) -> bool:
        both = (propagation_policy(workload["metadata"]["name"]), workload)
        return all(self.api.exists(each) and "deletionTimestamp" not in self.api.get(each)["metadata"] for each in both)

    def drain(self, name: str, *, on: bool = True) -> None:
        self.note("drain" if on else "undrain", cluster=name)
        self._taint(name, DRAINING, "NoSchedule", on=on)

    def evict(self, name: str, *, on: bool = True) -> None:
        """Give a cluster a taint for which Karmada's taint manager evicts all workloads, or remove it."""
        self.note("evict" if on else "unevict", cluster=name)
        self._taint(name, "maintenance", "NoExecute", on=on)

    def _taint(self, name: str, key: str, effect: str, *, on: bool) -> None:
        def changed() -> bool:
            found = self.api.get(_cluster(name))
            taints = [each for each in found["spec"].get("taints") or () if each["key"] != key]
            found["spec"]["taints"] = taints + ([{"key": key, "effect": effect}] if on else [])
            try:
                self.api.replace(found)
            except RefusedError as refusal:
                if refusal.status != 409:
                    raise
                return False
            return True

        wait_for(f"the taint of {name}", changed, LIMIT_S)

    def cordon(self, name: str, *, on: bool = True) -> None:
        self.note("cordon" if on else "uncordon", cluster=name)
        self.members[name].cordon(on=on)

    def forget(self, name: str) -> None:
        self.note("forget", cluster=name)
        self.api.delete(_cluster(name))

    def is_ready(self, name: str) -> bool:
        return self._condition(name) == "True"

    def offers(self, name: str, version: str, kind: str) -> bool:
        """Whether a Cluster reports a kind among those of its member."""
        enabled = self.api.get(_cluster(name)).get("status", {}).get("apiEnablements") or ()
        kinds = {
            resource["kind"] for each in enabled if each["groupVersion"] == version for resource in each["resources"]
        }
        return kind in kinds

    def joined(self, name: str) -> bool:
        return bool(self.api.exists(_cluster(name)))

    def rejoin(self, name: str) -> None:
        """Create the Cluster of a member again if it was deleted."""
        if self.joined(name) and "deletionTimestamp" not in self.api.get(_cluster(name))["metadata"]:
            return
        self.until(f"{name} is removed", lambda: not self.joined(name))
        self.api.create(self.members[name].joined()[1])
        self.note("rejoin", cluster=name)

    def kill(self, name: str) -> None:
        self.note("kill", cluster=name)
        self.members[name].kill()

    def flap(self, name: str, times: int, down_s: float) -> None:
        self.note("flap", cluster=name, times=times)
        for _ in range(times):
            self.members[name].kill()
            time.sleep(down_s)
            self.members[name].recover()
            time.sleep(down_s / 3)
        self.note("recover", cluster=name)

    def freeze(self, name: str) -> None:
        self.note("freeze", cluster=name)
        self.members[name].freeze()

    def recover(self, name: str) -> None:
        self.members[name].recover()
        self.note("recover", cluster=name)

    def restore(self, name: str) -> None:
        """Bring back what ``Member.back_up`` of a member copied, and restart Karmada's controllers."""
        self.note("kill", cluster=name)
        self.members[name].restore()
        self.note("recover", cluster=name)
        self.restart_karmada()

    def clear(self) -> None:
        for name, member in self.members.items():
            if not member.up:
                self.recover(name)
            self.treat(name, Pods.NORMAL)
            self.cordon(name, on=False)
            self.drain(name, on=False)
        for kind, version in KINDS.items():
            for each in self.api.list(version, kind, SPACE):
                self.remove(each["metadata"]["name"], {**each, "apiVersion": version, "kind": kind})
        for kind, version in BESIDE.items():
            for each in self.api.list(version, kind, SPACE) if self.api.lists(version, kind) else ():
                self.api.delete({**each, "apiVersion": version, "kind": kind})
        with suppress(RefusedError):
            self.limit(None)
        for each in self.api.list("policy.karmada.io/v1alpha1", "PropagationPolicy", SPACE):
            self.remove(each["metadata"]["name"])
        self.until("all Works are gone", lambda: not self._works_alive())
        self._clear_members()
        self.until("all pods are gone", lambda: not self._last_counts()["there"])

    def _works_alive(self) -> list[JSON]:
        found = (each for name in self.members for each in self.api.list(_WORKS, "Work", f"karmada-es-{name}"))
        return [each for each in found if PERMANENT_ID["ResourceBinding"] in each["metadata"].get("labels", {})]

    def _clear_members(self) -> None:
        """Remove what Karmada has left in the members."""
        for member in self.members.values():
            api = member.plane.api
            for kind, version in KINDS.items():
                for each in api.list(version, kind, SPACE):
                    api.delete({**each, "apiVersion": version, "kind": kind})

    def restart_karmada(self, *flags: str) -> None:
        """Kill Karmada's controllers, and start them again; see ``Driver.kill``."""
        self.note("kill", process="karmada")
        self.driver.kill(*flags)

    def lose_host(self, seconds: float) -> None:
        """Kill the API server of the host for some time. Processes of Berthmaster that end start again."""
        self.note("kill", process="the API server of the host")
        self.host.apiserver.kill()
        time.sleep(seconds)
        self.host.restart_apiserver()
        self.note("start", process="the API server of the host")
        self.keep_berthmaster()

    def restore_host(self) -> None:
        """Bring back what ``ControlPlane.back_up`` of the host copied, and restart Karmada, but not Berthmaster."""
        self.note("restore", process="etcd of the host")
        self.host.restore()
        self.driver.restart()

    def treat(self, name: str, pods: Pods) -> None:
        self.note("pods", cluster=name, pods=pods.value)
        self.members[name].treat(pods)

    # What tests look at

    def note(self, event: str, **more: Any) -> None:
        if self.observer is not None:
            self.observer.note(event, **more)

    def ready(self, app: str) -> dict[str, int]:
        """Return the ready pods of an application by cluster, as the observer saw them last."""
        return {name: number for name, number in self._last_counts()["ready"].get(app, {}).items() if number}

    def until_phase(self, app: str, *phases: str, limit_s: float = 120.0) -> None:
        self.until(f"{app} is {' or '.join(phases)}", lambda: self.phase(app) in phases, limit_s)

    def move(self, app: str) -> JSON:
        """Return the move of an application, as the observer saw it last; empty without."""
        return dict(self._last(app).get("move", {}))

    def wanted(self, app: str) -> set[int]:
        """Return the numbers of replicas that the binding of an application had."""
        return {line["wanted"] for line in self.observer.lines if line.get("binding") == app and not line["gone"]}

    def works(self, app: str, *clusters: str) -> list[str]:
        """Return the states that the Works of an application had, in some clusters or in all."""
        lines = self.observer.lines
        return [
            line["state"] for line in lines if line.get("work") == app and (not clusters or line["cluster"] in clusters)
        ]

    def stops(self) -> list[HistoryRow]:
        return LedgerReader(self.ledger).page(Query(trigger="stop"), 1000).rows

    def settled(self, app: str) -> dict[str, int]:
        self.until(f"{app} is at rest", lambda: not self.unrest(app))
        return self.ready(app)

    def twice(self, app: str) -> list[JSON]:
        """Return the lines of the time line in which an application has pods in two clusters."""
        there = ((line, line["there"].get(app, {})) for line in self.observer.lines if "there" in line)
        return [line for line, counts in there if sum(map(bool, counts.values())) > 1]

    def low_s(self, app: str, wanted: int) -> float:
        """Return for how many seconds at a time an application had fewer ready pods, at most, since it had them."""
        longest, since_s, seen = 0.0, None, False
        counts = [line for line in self.observer.lines if "ready" in line]
        now = {"t": self.observer.now_s(), "ready": counts[-1]["ready"]} if counts else None
        for line in (*counts, *([now] if now else ())):
            enough = sum(line["ready"].get(app, {}).values()) >= wanted
            seen |= enough
            if since_s is not None:
                longest = max(longest, line["t"] - since_s)
            if enough or not seen:
                since_s = None
            elif since_s is None:
                since_s = line["t"]
        return longest

    def begun(self, app: str) -> int:
        moving = [line["move"].get("phase") in _UNDER_WAY for line in self.observer.lines if line.get("binding") == app]
        return sum(now and not before for before, now in itertools.pairwise([False, *moving]))

    def most_at_once(self, apps: Sequence[str]) -> int:
        """Return how many applications moved at the same time, at most, by the order of the changes."""
        moving, most = dict.fromkeys(apps, False), 0
        for line in self.observer.lines:
            if (app := line.get("binding")) in moving:
                moving[app] = line["move"].get("phase") in _UNDER_WAY
                most = max(most, sum(moving.values()))
        return most

    def most_assigned(self, apps: Sequence[str], name: str) -> int:
        """Return how many replicas of some applications a cluster was assigned at the same time, at most."""
        now, most = dict.fromkeys(apps, 0), 0
        for line in self.observer.lines:
            if (app := line.get("binding")) in now:
                now[app] = line["clusters"].get(name, 0)
                most = max(most, sum(now.values()))
        return most

    def assigned(self, app: str) -> dict[str, int]:
        """Return the assignment of an application, as the observer saw it last."""
        return dict(self._last(app).get("clusters", {}))

    def unrest(self, app: str) -> str:
        """Return why an application is not at rest: a move under way, or pods that its binding does not assign."""
        lines, last = self.observer.lines, self._last(app)
        if not last or last["gone"]:
            return f"{app} has no binding"
        assigned = {name: number or 1 for name, number in last["clusters"].items() if number or not last["wanted"]}
        if self.moves(app):
            return f"{app}: a move is {self.phase(app)}: {last['move']}"
        duplicated = any(line.get("duplicated") for line in lines if line.get("app") == app and line["event"] == "run")
        short = not assigned if duplicated else sum(assigned.values()) != last["wanted"]
        if self.ready(app) != assigned or short:
            return f"{app}: {self.ready(app)} ready, {assigned} assigned, {last['wanted']} wanted"
        return ""

    def moves(self, app: str) -> bool:
        return self.phase(app) in _UNDER_WAY

    def phase(self, app: str) -> str:
        """Return the phase of the move of an application; empty without."""
        return str(self.move(app).get("phase", ""))

    def until(self, what: str, check: Callable[[], Value], limit_s: float = LIMIT_S) -> Value:
        def slowly() -> Value:
            time.sleep(POLL_S)
            return check()

        return wait_for(what, slowly, limit_s)

    def until_ready_in(self, app: str, name: str, count: int, limit_s: float = LIMIT_S) -> None:
        """Wait until so many pods are ready in a cluster, whatever runs in others."""
        self.until(f"{app} runs in {name}", lambda: self.ready(app).get(name) == count, limit_s)

    def until_ready(self, app: str, counts: Mapping[str, int], limit_s: float = LIMIT_S) -> None:
        self.until(f"{app} runs as {dict(counts)}", lambda: self.ready(app) == counts, limit_s)

    def _admitted(self, policy: JSON) -> JSON:
        return self.driver.admitted(policy)

    def _create(self, manifest: JSON) -> None:
        """Create an object that may exist. One that is being deleted is refused."""
        try:
            self.api.create(manifest)
        except RefusedError as refusal:
            if refusal.status != 409 or "deletionTimestamp" in self.api.get(manifest)["metadata"]:
                raise

    def _last(self, app: str) -> JSON:
        """Return the binding of an application, as the observer saw it last; empty without."""
        return next((line for line in reversed(self.observer.lines) if line.get("binding") == app), {})

    def _last_counts(self) -> JSON:
        return next((line for line in reversed(self.observer.lines) if "ready" in line), {"ready": {}, "there": {}})

    def _condition(self, name: str) -> str:
        conditions = self.api.get(_cluster(name)).get("status", {}).get("conditions") or ()
        return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


def terms(groups: Sequence[Sequence[str]]) -> list[JSON]:
    return [{"affinityName": f"g{index}", "clusterNames": list(names)} for index, names in enumerate(groups, 1)]


def _cluster(name: str) -> JSON:
    return {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}


def _first(app: str) -> str:
    """Return the name of the policy that takes an application over."""
    return f"{app}-first"


def propagation_policy(app: str) -> JSON:
    """Return the reference of a policy; the one of an application has its name."""
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": app, "namespace": SPACE},
    }
