"""``berthmaster controllers`` with a test controller: it copies the value ``wants`` of a ConfigMap to ``has``.

The command and its options are the real ones. Only the registry of controllers is replaced.
"""

import sys
from typing import Final

import msgspec

import berthmaster_cli.controllers
from berthmaster.controllers.controller import QueueController, Requeue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.registry import Registration
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.kube.client import ask
from berthmaster.kube.events import EventContent, Reference
from berthmaster.kube.informer import Informer
from berthmaster.kube.requests import Collection, merge_patch
from berthmaster.model.decode import decode_json
from berthmaster.model.meta import Key
from berthmaster_cli.main import run

CONFIG_MAPS: Final = Collection.of("v1", "configmaps")
MARK: Final = "berthmaster.io/e2e-copies"


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class ConfigMap(msgspec.Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] = {}


class Copying:
    """Writes ``has`` if it differs from ``wants``, and counts the writes in ``writes``."""

    def __init__(self, context: ControllerContext, maps: Informer[ConfigMap]) -> None:
        self._context = context
        self._maps = maps

    def reconcile(self, key: Key) -> Requeue | None:
        found = self._maps.get(key)
        if found is None or found.data.get("wants") == found.data.get("has"):
            return None
        writes = int(found.data.get("writes", "0")) + 1
        data = {"has": found.data.get("wants"), "writes": str(writes)}
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "data": data}
        ask(self._context.client, merge_patch(CONFIG_MAPS, key, patch))
        regarding = Reference("v1", "ConfigMap", *key, uid=found.metadata.uid)
        event = EventContent(regarding, "Normal", "Copied", "Copying", "copied the wanted value")
        self._context.recorder.record(event)
        return None


def controller(context: ControllerContext, _settings: ControllerSettings) -> QueueController[Key]:
    maps = context.informer(CONFIG_MAPS, lambda raw: decode_json(ConfigMap, raw))
    queue: WorkQueue[Key] = WorkQueue(context.clock)

    def changed(key: Key, _before: ConfigMap | None, after: ConfigMap | None) -> None:
        if after is not None and MARK in after.metadata.labels:
            queue.add(key)

    maps.subscribe(changed)
    return QueueController("copying", Copying(context, maps), queue, context.clock, workers=2)


if __name__ == "__main__":
    berthmaster_cli.controllers.REGISTRY = (Registration("copying", controller),)
    sys.argv.insert(1, "controllers")
    run()
