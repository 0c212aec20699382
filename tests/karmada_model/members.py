"""Member clusters with their agents: they run the workloads of Works, and report later what became of them.

A test plays with them: it breaks an image or a workload, lets a cluster get lost, and brings it back. ``healthy`` says
what really runs. The status of a Work, and so the status of a binding, says that only some seconds later.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from karmada_model.agenda import Agenda
from karmada_model.objects import Ident, News, Objects, ident, stamp
from karmada_model.works import CONFLICT_RESOLUTION, EXECUTION, SPACE, TEMPLATE_GENERATION, cluster_of
from kube_store import JSON

from berthmaster.model.dependencies import dependencies_of
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import replicas_of
from berthmaster.model.template_facts import RETAINED

CLUSTER_VERSION: Final = "cluster.karmada.io/v1alpha1"
LONGEST_DELETE_RETRY_S: Final = 90.0
"""How long Karmada waits at most before it deletes a resource in a member again that it could not reach (seen)."""
WITH_PODS: Final = ("Deployment", "StatefulSet", "ReplicaSet")
"""Kinds whose health depends on their pods. Other kinds are healthy once they are applied."""
_SAME_MOMENT: Final = timedelta(seconds=1)
"""How old the Work of a workload must be, at least, when the deletion of what it needs begins, to be harmed by it."""
_NOT_REFLECTED: Final = {
    "StatefulSet": frozenset({"observedGeneration", "unavailableReplicas"}),
    "ReplicaSet": frozenset({"updatedReplicas", "unavailableReplicas"}),
}
"""The fields of a status that Karmada does not report, by kind."""


@dataclass(frozen=True)
class Delays:
    """How long members take, in seconds.

    Attributes:
        apply_s: until a changed Work is applied.
        start_s: until new or changed pods are healthy.
        report_s: until a change in a member is in the status of the Work.
        delete_s: until a deleted Work is gone.
        terminate_s: how long the pods of a deleted copy take to end, at most their grace period.
        detect_s: until a lost cluster has the condition Ready=Unknown; ``--cluster-monitor-grace-period``.
    """

    apply_s: float = 1.0
    start_s: float = 20.0
    report_s: float = 3.0
    delete_s: float = 2.0
    terminate_s: float = 0.0
    detect_s: float = 40.0


@dataclass
class RunningCopy:
    """A resource as it is in a member cluster.

    Attributes:
        manifest: as applied.
        generation: the generation of the object in the member.
        wanted: its replicas.
        ready: the replicas that are healthy, of any generation.
        current: whether all of ``ready`` are of the present generation and complete.
        pods: the pod template of the replicas that became healthy last.
        finished: whether it is a Job whose pods have all ended well.
        ends: whether the object is being deleted, and only a finalizer keeps it.
    """

    manifest: JSON
    generation: int = 0
    wanted: int = 0
    ready: int = 0
    current: bool = False
    pods: JSON | None = None
    finished: bool = False
    ends: bool = False


class EndingPods(NamedTuple):
    """Pods that were deleted, and still run.

    Attributes:
        manifest: the resource that they are of.
        count: how many.
        until_s: when the last one has ended.
    """

    manifest: JSON
    count: int
    until_s: float


@dataclass
class Member:
    """A member cluster.

    Attributes:
        up: whether its agent reaches the control plane and its pods serve.
        copies: what runs, by Work.
        ending: the pods that end.
        left: what ``preserveResourcesOnDeletion`` has left there. Karmada does not manage it any more.
        orphans: what runs without a Work, by the Work that it had. If Karmada writes that again, it manages the copy.
        volumes: the claims that have a volume, as Namespace/Name.
        allocated: its own use of resources, besides the copies; None until the first report.
        hidden_until_s: until when Karmada sees nothing new there. It does not delete what it has never seen.
    """

    up: bool = True
    copies: dict[Ident, RunningCopy] = field(default_factory=dict)
    ending: list[EndingPods] = field(default_factory=list)
    left: dict[Ident, RunningCopy] = field(default_factory=dict)
    orphans: dict[Ident, RunningCopy] = field(default_factory=dict)
    volumes: set[str] = field(default_factory=set)
    allocated: JSON | None = None
    hidden_until_s: float = 0.0


class Members:
    """All member clusters. It implements ``Controller``.

    Attributes:
        harm: what was taken from workloads that were still there, in order: volumes, and resources that they need.

    Args:
        objects: what they read and write.
        agenda: where they queue their tasks.
        now: the time of day.
        delays: how long they take.
        reports_resources: whether they report the resources that their copies use, in the status of their Cluster.
        prefix: how the names of the clusters start that are played. Others have real agents.
    """

    def __init__(
        self,
        objects: Objects,
        agenda: Agenda,
        now: Callable[[], datetime],
        delays: Delays | None = None,
        *,
        reports_resources: bool = False,
        prefix: str = "",
    ) -> None:
        self.delays = delays or Delays()
        self._objects = objects
        self._agenda = agenda
        self._now = now
        self._reports_resources = reports_resources
        self._space = f"{SPACE}{prefix}"
        self._members: dict[str, Member] = {}
        self._broken: set[tuple[str, str]] = set()
        self._broken_images: set[str] = set()
        self._room: dict[tuple[str, str], int] = {}
        self._refusals: dict[tuple[str, str], str] = {}
        self._delete_waits: dict[Ident, float] = {}
        self._finalized: set[tuple[str, str]] = set()
        self.harm: list[str] = []

    def observe(self, news: News) -> None:
        latest = news.latest
        if latest["kind"] != "Work" or not str(latest["metadata"]["namespace"]).startswith(self._space):
            return
        which = ident(latest)
        if news.after is None:
            self.member(cluster_of(latest)).copies.pop(which, None)
            self._delete_waits.pop(which, None)
        elif "deletionTimestamp" in latest["metadata"]:
            self._later(self.delays.delete_s, which, self._remove)
        elif news.before is None or news.before["spec"] != latest["spec"]:
            self._later(self.delays.apply_s, which, self._apply)

    # What tests ask and play

    def member(self, name: str) -> Member:
        return self._members.setdefault(name, Member())

    def copies(self, template: JSON) -> dict[str, RunningCopy]:
        wanted = ident(template)
        return {
            name: copy
            for name, member in self._members.items()
            for copy in member.copies.values()
            if ident(copy.manifest) == wanted
        }

    def running(self, template: JSON) -> set[str]:
        """Return the member clusters that run pods of a template, also pods that are ending."""
        now_s, wanted = self._agenda.now_s(), ident(template)
        ending = {
            name
            for name, member in self._members.items()
            if any(ident(each.manifest) == wanted and each.until_s > now_s for each in member.ending)
        }
        left = {name for name, member in self._members.items() if (copy := member.left.get(wanted)) and copy.wanted}
        return ending | left | {name for name, copy in self.copies(template).items() if copy.wanted}

    def healthy(self, template: JSON) -> dict[str, int]:
        """Return how many replicas of a template really are healthy, by member cluster. Lost clusters have none."""
        return {name: copy.ready for name, copy in self.copies(template).items() if self.member(name).up and copy.ready}

    def break_image(self, image: str) -> None:
        """Let no pod with this image become healthy. Running pods stay."""
        self._broken_images.add(image)

    def break_workload(self, cluster: str, name: str) -> None:
        self._broken.add((cluster, name))
        for which, copy in self.member(cluster).copies.items():
            if copy.manifest["metadata"]["name"] == name:
                copy.ready, copy.current = 0, False
                self._later(self.delays.report_s, which, self._report)

    def refuse(self, cluster: str, name: str, message: str) -> None:
        """Let the API server of a cluster refuse a workload that it does not have yet."""
        self._refusals[cluster, name] = message

    def crowd(self, cluster: str, name: str, room: int) -> None:
        """Let at most so many pods of a workload run in a cluster. More are unschedulable; running ones stay."""
        self._room[cluster, name] = room

    def finalize(self, cluster: str, name: str) -> None:
        """Let objects of this name have a finalizer. Once deleted, they and their pods stay until ``let_go``."""
        self._finalized.add((cluster, name))

    def forget(self, work: JSON) -> None:
        """Let a copy run on whose Work is about to vanish, as in a restore of etcd."""
        member, which = self.member(cluster_of(work)), ident(work)
        if which in member.copies:
            member.orphans[which] = member.copies.pop(which)

    def reflect(self) -> None:
        """Write the status of all copies again, as Karmada does when it starts."""
        for member in self._members.values():
            for which in member.copies:
                self._later(self.delays.report_s, which, self._report)

    def hide(self, cluster: str, seconds: float) -> None:
        """Let Karmada see nothing new in a cluster for some time, as while it connects again after an outage."""
        self.member(cluster).hidden_until_s = self._agenda.now_s() + seconds

    def let_go(self) -> None:
        """Remove all finalizers. What was deleted goes at once, and Karmada creates again what it manages."""
        self._finalized.clear()
        for member in self._members.values():
            for which in [which for which, each in member.orphans.items() if each.ends]:
                del member.orphans[which]
            for which, copy in member.copies.items():
                if copy.ends:
                    copy.ends, copy.ready, copy.current = False, 0, False
                    self._later(self.delays.start_s, which, self._start)
                    self._later(self.delays.report_s, which, self._report)

    def autoscale(self, cluster: str, template: JSON, count: int) -> None:
        """Let a HorizontalPodAutoscaler in a member change the replicas there."""
        for which, copy in self.member(cluster).copies.items():
            if ident(copy.manifest) == ident(template):
                self._end_pods(cluster, copy, copy.wanted - count)
                copy.generation, copy.wanted, copy.current = copy.generation + 1, count, copy.ready == count
                copy.ready = min(copy.ready, count)
                self._later(self.delays.report_s, which, self._report)
                self._later(self.delays.start_s, which, self._start)

    def lose_pods(self, cluster: str, template: JSON, count: int) -> None:
        """End some pods of a workload in a cluster, as a node that fails does."""
        which, copy = next(
            (which, each)
            for which, each in self.member(cluster).copies.items()
            if ident(each.manifest) == ident(template)
        )
        copy.ready, copy.current = max(0, copy.ready - count), False
        self._later(self.delays.report_s, which, self._report)
        self._later(self.delays.start_s, which, self._start)

    def unschedulable(self, template: JSON) -> dict[str, int]:
        """Return how many replicas of a template are unschedulable, by member cluster, as an estimator says it."""
        name = template["metadata"]["name"]
        found = self.copies(template)
        return {each: copy.wanted - copy.ready for each, copy in found.items() if (each, name) in self._room}

    def room(self, cluster: str, template: JSON) -> int | None:
        """Return how many more pods of a template start in a cluster; None if nothing limits them."""
        limit = self._room.get((cluster, template["metadata"]["name"]))
        copy = self.copies(template).get(cluster)
        return None if limit is None else max(0, limit - (copy.ready if copy is not None else 0))

    def finish(self, job: JSON, *names: str) -> None:
        """Let all pods of a Job end well, in some members or wherever it runs."""
        for member in (self._members[name] for name in names or self._members):
            for which, copy in member.copies.items():
                if ident(copy.manifest) == ident(job) and copy.ready:
                    copy.finished = True
                    self._later(self.delays.report_s, which, self._report)

    def clean(self) -> None:
        """Delete what Karmada has left behind, as a person does."""
        for member in self._members.values():
            member.left.clear()
            member.orphans.clear()

    def mend(self) -> None:
        """Let everything that is broken or crowded become healthy again."""
        self._room.clear()
        self._broken.clear()
        self._broken_images.clear()
        for member in self._members.values():
            for which, copy in member.copies.items():
                if not copy.current:
                    self._later(self.delays.start_s, which, self._start)

    def lose(self, cluster: str, status: str = "Unknown") -> None:
        """Lose a cluster: its pods serve no more, it reports nothing, and its condition changes when that is noticed.

        What it reported last stays in the status of Works and bindings. What is deleted meanwhile stays, too, until
        the cluster is back and Karmada tries again.
        """
        self.member(cluster).up = False
        self._detect(self.delays.detect_s, cluster, status)

    def recover(self, cluster: str, *, pods_ran: bool = False) -> None:
        """Bring a lost cluster back, and let its agent catch up.

        Args:
            cluster: the name.
            pods_ran: whether only its API server was out of reach. Otherwise its pods start again.
        """
        member = self.member(cluster)
        member.up = True
        for which, copy in member.copies.items() if not pods_ran else ():
            copy.ready, copy.current = 0, False
            self._later(self.delays.start_s, which, self._start)  # also while dispatching is suspended
            self._later(self.delays.report_s, which, self._report)
        self._detect(self.delays.report_s, cluster, "True")
        for work in list(self._objects.all("Work")):
            if cluster_of(work) == cluster and "deletionTimestamp" not in work["metadata"]:
                self._later(self.delays.apply_s, ident(work), self._apply)

    def set_ready(self, cluster: str, status: str) -> None:
        at = stamp(self._now())
        self._objects.change(
            Ident(CLUSTER_VERSION, "Cluster", "", cluster), partial(_set_ready, status=status, at=at), status=True
        )

    # What agents do

    def _later(self, seconds: float, which: Ident, run: Callable[[Ident], None]) -> None:
        key = (run.__name__, which)
        if seconds:
            self._agenda.add_after(seconds, "members", key, partial(run, which))
        else:
            self._agenda.add("members", key, partial(run, which))

    def _detect(self, seconds: float, cluster: str, status: str) -> None:
        def detect() -> None:
            if self.member(cluster).up == (status == "True"):  # else it was lost or came back meanwhile
                self.set_ready(cluster, status)

        self._agenda.add_after(seconds, "members", ("detect", cluster, status), detect)

    def _apply(self, which: Ident) -> None:
        work = self._objects.get(which)
        if work is None or not self.member(_cluster(which)).up or work["spec"].get("suspendDispatching"):
            return
        if "deletionTimestamp" in work["metadata"]:
            return
        manifest = work["spec"]["workload"]["manifests"][0]
        refusal = self._refusals.get((_cluster(which), manifest["metadata"]["name"]), "")
        if refusal or not self._may_manage(which, manifest):
            status = _refused_status(manifest, _cluster(which), stamp(self._now()), refusal)
            self._objects.change(which, partial(_set_status, status=status), status=True)
            self._later(LONGEST_DELETE_RETRY_S, which, self._apply)
            return
        member = self.member(_cluster(which))
        member.volumes |= _volumes(manifest)
        if which in member.orphans:
            member.copies[which] = member.orphans.pop(which)
        copy = self.member(_cluster(which)).copies.setdefault(which, RunningCopy({**manifest, "spec": None}))
        if copy.manifest.get("spec") != manifest.get("spec"):
            copy.generation += 1
            if copy.generation == 1 or manifest["metadata"].get("labels", {}).get(RETAINED) != "true":
                wanted = replicas_of(manifest).number  # else the member keeps its own number
                self._end_pods(_cluster(which), copy, copy.wanted - wanted)
                copy.wanted = wanted
            if copy.pods != _pod_template(manifest) and _restarts_all(manifest):
                copy.ready = 0
            copy.current = copy.ready >= copy.wanted and copy.pods == _pod_template(manifest)
            copy.ready = min(copy.ready, copy.wanted)
        copy.manifest = manifest
        waiting = [which] if not copy.current else []
        if manifest["kind"] not in WITH_PODS:  # pods may wait for it
            waiting += [each for each, other in self.member(_cluster(which)).copies.items() if not other.current]
        for each in waiting:
            self._later(self.delays.start_s, each, self._start)
        for each in self._lost_with_their_kind(which, manifest):
            self._later(self.delays.apply_s, each, self._apply)
        self._later(self.delays.report_s, which, self._report)

    def _lost_with_their_kind(self, which: Ident, manifest: JSON) -> list[Ident]:
        """Return the Works of custom resources that went with their definition, which is there again.

        Karmada tries to create them until it can (karmada ``work_status_controller.go`` handleDeleteEvent).
        """
        if manifest["kind"] != "CustomResourceDefinition":
            return []
        copies = self.member(_cluster(which)).copies
        works = [each for each in self._objects.all("Work") if each["metadata"]["namespace"] == which.namespace]
        defined = [each for each in works if _defines(manifest, each["spec"]["workload"]["manifests"][0])]
        return [ident(each) for each in defined if ident(each) not in copies]

    def _may_manage(self, which: Ident, manifest: JSON) -> bool:
        """Return whether Karmada takes over what it left there before (karmada ``allowUpdate``)."""
        left = self.member(_cluster(which)).left
        if ident(manifest) not in left:
            return True
        if manifest["metadata"].get("annotations", {}).get(CONFLICT_RESOLUTION) != "overwrite":
            return False
        self.member(_cluster(which)).copies[which] = left.pop(ident(manifest))
        return True

    def _start(self, which: Ident) -> None:
        copy = self.member(_cluster(which)).copies.get(which)
        if copy is None or copy.current or not self.member(_cluster(which)).up or self._is_broken(which, copy):
            return
        if copy.pods is None and copy.manifest.get("spec", {}).get("paused"):
            return  # the Deployment controller creates no ReplicaSet
        if any(ident(each) not in self._present(_cluster(which)) for each in _mounted(copy.manifest)):
            return
        room = self._room.get((_cluster(which), copy.manifest["metadata"]["name"]), copy.wanted)
        copy.ready = min(copy.wanted, max(room, copy.ready))
        copy.current, copy.pods = copy.ready == copy.wanted, _pod_template(copy.manifest)
        self._later(self.delays.report_s, which, self._report)

    def _is_broken(self, which: Ident, copy: RunningCopy) -> bool:
        if (_cluster(which), copy.manifest["metadata"]["name"]) in self._broken:
            return True
        return any(image in self._broken_images for image in _images(copy.manifest))

    def _report(self, which: Ident) -> None:
        cluster = _cluster(which)
        member = self.member(cluster)
        copy = member.copies.get(which)
        if self._hides(member):
            work = self._objects.get(which)
            if copy is not None and work is not None and "conditions" not in work.get("status", {}):
                status = {"conditions": _work_status(copy, stamp(self._now()))["conditions"]}
                self._objects.change(which, partial(_set_status, status=status), status=True)
            self._later(member.hidden_until_s - self._agenda.now_s() + self.delays.report_s, which, self._report)
        elif copy is not None and member.up:
            status = _work_status(copy, stamp(self._now()))
            self._objects.change(which, partial(_set_status, status=status), status=True)
        if self._reports_resources and member.up:
            self._report_resources(cluster)

    def _report_resources(self, cluster: str) -> None:
        member, which = self.member(cluster), Ident(CLUSTER_VERSION, "Cluster", "", cluster)
        found = self._objects.get(which)
        summary = found.get("status", {}).get("resourceSummary") if found is not None else None
        if summary is None:
            return
        if member.allocated is None:
            member.allocated = dict(summary.get("allocated") or {})
        now_s = self._agenda.now_s()
        used = _used(
            member.allocated,
            [
                *((copy.manifest, copy.wanted) for copy in member.copies.values()),
                *((each.manifest, each.count) for each in member.ending if each.until_s > now_s),
            ],
        )
        self._objects.change(which, lambda it: it["status"]["resourceSummary"].update(allocated=used), status=True)

    def _remove(self, which: Ident) -> None:
        """Delete a copy, and then the finalizer of its Work. Karmada tries again later and later."""
        work = self._objects.get(which)
        if work is None or "deletionTimestamp" not in work["metadata"]:
            return
        member = self.member(_cluster(which))
        if not member.up:
            wait_s = self._delete_waits[which] = min(2 * self._delete_waits.get(which, 1.0), LONGEST_DELETE_RETRY_S)
            self._later(wait_s, which, self._remove)
            return
        copy = member.copies.pop(which, None)
        if copy is not None and (_cluster(which), copy.manifest["metadata"]["name"]) in self._finalized:
            copy.ends, member.orphans[which] = True, copy
            copy = None
        if copy is not None and not work.get("status", {}).get("manifestStatuses") and self._hides(member):
            member.orphans[which] = copy
            copy = None
        if copy is not None and work["spec"].get("preserveResourcesOnDeletion"):
            member.left[ident(copy.manifest)] = copy
            copy = None
        if copy is not None:
            self._take(_cluster(which), copy, datetime.fromisoformat(work["metadata"]["deletionTimestamp"]))
        if copy is not None:
            self._end_pods(_cluster(which), copy, copy.wanted)
        self._objects.change(which, _remove_finalizer)
        if self._reports_resources:
            self._report_resources(_cluster(which))

    def _hides(self, member: Member) -> bool:
        return member.hidden_until_s > self._agenda.now_s()

    def _end_pods(self, cluster: str, copy: RunningCopy, count: int) -> None:
        """Let some pods of a copy end. They use their resources until then."""
        if count <= 0 or not self.delays.terminate_s:
            return
        member, now_s = self.member(cluster), self._agenda.now_s()
        until_s = now_s + min(self.delays.terminate_s, _grace_s(copy.manifest))
        member.ending = [each for each in member.ending if each.until_s > now_s]
        member.ending.append(EndingPods(copy.manifest, count, until_s))
        if self._reports_resources:
            key = ("resources", cluster, until_s)
            report = partial(self._report_resources, cluster)
            self._agenda.add_after(until_s - now_s + self.delays.report_s, "members", key, report)

    def _present(self, cluster: str) -> set[Ident]:
        return {ident(each.manifest) for each in self.member(cluster).copies.values()}

    def _take(self, cluster: str, copy: RunningCopy, at: datetime) -> None:
        """Do what the deletion of a resource does to others in a member, and record whom that harms.

        Nobody could know about a workload that arrived when the deletion began. Its pods wait for what they need.
        """
        member, gone = self.member(cluster), ident(copy.manifest)
        if gone.kind == "PersistentVolumeClaim":
            member.volumes.discard(f"{gone.namespace}/{gone.name}")
            self.harm.append(f"the volume of {gone.name} on {cluster} is deleted")
        for which, other in list(member.copies.items()):
            work = self._objects.get(which)
            if work is None or "deletionTimestamp" in work["metadata"]:
                continue  # it goes, too
            arrived = at - datetime.fromisoformat(work["metadata"]["creationTimestamp"]) <= _SAME_MOMENT
            name, harm = other.manifest["metadata"]["name"], ""
            if gone.kind == "CustomResourceDefinition" and _defines(copy.manifest, other.manifest):
                harm = f"{name} on {cluster} is deleted with its kind"
                del member.copies[which]
            elif gone.kind != "PersistentVolumeClaim" and any(ident(each) == gone for each in _mounted(other.manifest)):
                harm = f"{name} on {cluster} needs {gone.kind} {gone.name}"
            if harm and not arrived:
                self.harm.append(harm)


def _mounted(manifest: JSON) -> list[JSON]:
    """Return what the pods of a workload need to start."""
    found = dependencies_of(manifest) or () if manifest.get("spec") else ()
    return [
        {"apiVersion": each.api_version, "kind": each.kind, "namespace": each.namespace, "name": each.name}
        for each in found
    ]


def _volumes(manifest: JSON) -> set[str]:
    """Return the claims that a member binds to a volume for a resource."""
    where, name = manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
    if manifest["kind"] == "PersistentVolumeClaim":
        return {f"{where}/{name}"}
    templates = manifest.get("spec", {}).get("volumeClaimTemplates", ())
    return {f"{where}/{each['metadata']['name']}-{name}" for each in templates}


def _defines(definition: JSON, other: JSON) -> bool:
    spec, group = definition["spec"], other["apiVersion"].rpartition("/")[0]
    return bool(spec["group"] == group and spec["names"]["kind"] == other["kind"])


def _refused_status(manifest: JSON, cluster: str, at: str, refusal: str = "") -> JSON:
    named = "/".join(manifest["metadata"].get(key, "") for key in ("namespace", "name"))
    message = (
        f"Failed to apply all manifests (0/1): resource(kind={manifest['kind']}, {named}) already exists in the "
        f"cluster {cluster} and the {CONFLICT_RESOLUTION} strategy value is empty, "
        "Karmada will not manage this resource"
    )
    condition = {
        "type": "Applied",
        "status": "False",
        "reason": "AppliedFailed",
        "message": refusal or message,
        "lastTransitionTime": at,
    }
    return {"conditions": [condition]}


def _cluster(work: Ident) -> str:
    return work.namespace.removeprefix(SPACE)


def _grace_s(manifest: JSON) -> float:
    return float(_pod_template(manifest).get("spec", {}).get("terminationGracePeriodSeconds", 30))


def _pod_template(manifest: JSON) -> JSON:
    found: JSON = (manifest.get("spec") or {}).get("template") or {}
    return found


def _restarts_all(manifest: JSON) -> bool:
    """Whether a Deployment may stop all pods at once when their template changes."""
    update = (manifest["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    return bool(manifest["kind"] == "Deployment" and update.get("maxUnavailable") == "100%")


def _images(manifest: JSON) -> Iterator[str]:
    for each in _pod_template(manifest).get("spec", {}).get("containers", ()):
        yield each.get("image", "")


def _used(base: JSON, pods: Iterable[tuple[JSON, int]]) -> JSON:
    """Return what a member uses: its own use, and that of pods, as manifests with their numbers."""
    total = {name: Quantity.parse(amount) for name, amount in base.items()}
    for manifest, count in pods:
        if manifest["kind"] not in WITH_PODS:
            continue
        requirements = replicas_of(manifest).requirements
        requests = requirements.resource_request if requirements is not None else {}
        for name, amount in {**requests, "pods": Quantity.parse("1")}.items():
            for _ in range(count):
                total[name] = total[name] + amount if name in total else amount
    return {name: amount.canonical() for name, amount in total.items()}


def _work_status(copy: RunningCopy, at: str) -> JSON:
    manifest = copy.manifest
    group, _, version = manifest["apiVersion"].rpartition("/")
    identifier = {
        "ordinal": 0,
        "version": version,
        "kind": manifest["kind"],
        "resource": f"{manifest['kind'].lower()}s",
    }
    named = {key: manifest["metadata"][key] for key in ("namespace", "name") if key in manifest["metadata"]}
    entry: JSON = {"identifier": {**identifier, **({"group": group} if group else {}), **named}}
    entry["health"] = "Healthy"
    if manifest["kind"] in WITH_PODS:
        entry["health"] = "Healthy" if copy.current and copy.ready >= copy.wanted else "Unhealthy"
        entry["status"] = _reflected(copy)
    elif manifest["kind"] == "Job":
        done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": copy.wanted}
        entry["status"] = done if copy.finished else {"active": copy.ready}
    applied = {
        "type": "Applied",
        "status": "True",
        "reason": "AppliedSuccessful",
        "message": "Manifest has been successfully applied",
        "lastTransitionTime": at,
    }
    return {"conditions": [applied], "manifestStatuses": [entry]}


def _reflected(copy: RunningCopy) -> JSON:
    """Return the status of a workload as Karmada reflects it (``native/reflectstatus.go``). Like Go, omit zeros.

    Karmada reports no observedGeneration for a StatefulSet. Its health is computed in the member, and needs one.
    """
    annotations = copy.manifest["metadata"].get("annotations", {})
    updated = copy.ready if copy.current else 0
    status = {
        "generation": copy.generation,
        "observedGeneration": copy.generation,
        "resourceTemplateGeneration": int(annotations.get(TEMPLATE_GENERATION, 0)),
        "replicas": copy.wanted,
        "updatedReplicas": updated,
        "readyReplicas": copy.ready,
        "availableReplicas": copy.ready,
        "unavailableReplicas": copy.wanted - copy.ready,
    }
    omitted = _NOT_REFLECTED.get(copy.manifest["kind"], frozenset())
    return {key: value for key, value in status.items() if value and key not in omitted}


def _set_status(work: JSON, status: JSON) -> None:
    """Write the status of a Work. An unchanged condition keeps its time."""
    known = {each["type"]: each for each in work.get("status", {}).get("conditions", ())}
    conditions = [
        {**each, "lastTransitionTime": known[each["type"]]["lastTransitionTime"]}
        if known.get(each["type"], {}).get("status") == each["status"]
        else each
        for each in status["conditions"]
    ]
    work["status"] = {**status, "conditions": conditions}


def _set_ready(cluster: JSON, status: str, at: str) -> None:
    conditions = cluster.setdefault("status", {}).setdefault("conditions", [])
    known = next((each for each in conditions if each["type"] == "Ready"), None)
    if known is None:
        conditions.append({"type": "Ready", "status": status, "reason": "Played", "lastTransitionTime": at})
    elif known["status"] != status:
        known.update(status=status, lastTransitionTime=at)


def _remove_finalizer(work: JSON) -> None:
    work["metadata"]["finalizers"] = [each for each in work["metadata"].get("finalizers", ()) if each != EXECUTION]
