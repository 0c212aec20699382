"""Volumes of a pod as a kubelet writes them: a folder for each, whose files change together, and late."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from e2e.api import Api, RefusedError

Rewrite = Callable[[bytes], bytes]
_CURRENT = "..data"


class Mounts:
    """The Secrets and ConfigMaps that one pod mounts."""

    def __init__(
        self, api: Api, namespace: str, pod: Mapping[str, Any], folder: Path, rewrite: Rewrite = bytes
    ) -> None:
        """Nothing is written before the first ``sync``.

        Args:
            api: reads them.
            namespace: the pod's.
            pod: its spec, with one container.
            folder: for the files; no other code writes to it.
            rewrite: what becomes of the content of each file.
        """
        self._api = api
        self._namespace = namespace
        self._folder = folder
        self._rewrite = rewrite
        self._held: dict[str, dict[str, bytes]] = {}
        self._volumes = {each["name"]: each for each in pod["volumes"]}
        [container] = pod["containers"]
        self._paths = {each["mountPath"]: folder / each["name"] for each in container["volumeMounts"]}

    def sync(self) -> bool:
        """Write what has changed. Return whether every file has existed at some time."""
        for name, volume in self._volumes.items():
            content = self._content(volume)
            if content is not None and content != self._held.get(name):
                self._write(name, content)
                self._held[name] = content
        return self._held.keys() == self._volumes.keys()

    def local(self, text: str) -> str:
        """Replace the container's paths in an argument with the folders."""
        for inside, outside in self._paths.items():
            for before in ("=", "=sqlite:///"):
                text = text.replace(f"{before}{inside}", f"{before}{outside}")
        return text

    def _content(self, volume: Mapping[str, Any]) -> dict[str, bytes] | None:
        """Return files by name; None if the object or a requested key is missing: a pod would wait."""
        if volume.keys() & {"emptyDir", "persistentVolumeClaim"}:
            return {}
        if "projected" in volume:
            parts = [self._content(each) for each in volume["projected"]["sources"]]
            return None if None in parts else {path: text for part in parts if part for path, text in part.items()}
        kind, source = ("Secret", volume["secret"]) if "secret" in volume else ("ConfigMap", volume["configMap"])
        metadata = {"name": source.get("secretName") or source["name"], "namespace": self._namespace}
        try:
            data = self._api.get({"apiVersion": "v1", "kind": kind, "metadata": metadata}).get("data", {})
        except RefusedError as refusal:
            if refusal.status != 404:
                raise
            return None
        decoded = {key: base64.b64decode(text) if kind == "Secret" else text.encode() for key, text in data.items()}
        items = {
            each["key"]: each["path"] for each in source.get("items") or [{"key": key, "path": key} for key in data]
        }
        if not items.keys() <= decoded.keys():
            return None
        return {path: self._rewrite(decoded[key]) for key, path in items.items()}

    def _write(self, name: str, content: Mapping[str, bytes]) -> None:
        """Write a new folder beside the old one and switch one link to it."""
        volume = self._folder / name
        version = volume / f"..{len(list(volume.glob('..*'))) if volume.exists() else 0}"
        version.mkdir(parents=True)
        for file, text in content.items():
            (version / file).write_bytes(text)
            link = volume / file
            if not link.is_symlink():
                link.symlink_to(Path(_CURRENT) / file)
        turned = volume / "..turned"
        turned.symlink_to(version.name)
        turned.replace(volume / _CURRENT)
