"""Which kubeconfig files and which context give access to an API server, in kubectl's order.

The order is that of client-go's ``clientcmd``: the file that the caller names; else the files of ``$KUBECONFIG``; else
``~/.kube/config``; else the service account of the pod. In a list of files the first one that sets a value wins.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from berthmaster.kube.manner import RequestManner
from berthmaster.model.errors import InputError, name_list, shown

VARIABLE: Final = "KUBECONFIG"
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
_DEFAULT_NAMESPACE: Final = "default"
_MAX_BYTES: Final = 4 * 2**20
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAMING: Final = (
    ("clusters", "cluster", ("certificate-authority",)),
    ("users", "user", ("client-certificate", "client-key", "tokenFile")),
)
"""The keys of a kubeconfig that name files, relative to its folder."""


class ClusterAccess(NamedTuple):
    """The source of an access: a context of kubeconfig files, or without files the service account of the pod.

    Attributes:
        named_namespace: the namespace that the context or the pod names; empty without one.
        manner: how requests are sent.
    """

    files: tuple[Path, ...]
    context: str
    named_namespace: str
    manner: RequestManner = RequestManner()

    @property
    def namespace(self) -> str:
        return self.named_namespace or _DEFAULT_NAMESPACE

    def __str__(self) -> str:
        if not self.files:
            return "the service account of this pod"
        return f"context {self.context!r} of {', '.join(map(str, self.files))}"


def find_access(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterAccess:
    """Find the access to an API server: in one file, or in kubectl's order. Raises ``InputError`` if there is none."""
    files = _files(kubeconfig, environ)
    if files:
        return _in_files(files, context)
    if environ.get(HOST_VARIABLE) and context is None:
        return ClusterAccess((), "", _namespace_of_pod(service_account))
    if context is not None:
        raise InputError(f"there is no kubeconfig with the context {shown(context)}; specify one with --kubeconfig")
    raise InputError(
        f"no access to an API server: ${VARIABLE} is not set, {_default_file(environ)} does not exist, and this "
        "process does not run in a pod; specify a kubeconfig file with --kubeconfig"
    )


def known_contexts(kubeconfig: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the contexts of one file, or of the files in kubectl's order."""
    return sorted(_contexts(_files(kubeconfig, environ).values()))


def named_files(access: ClusterAccess, service_account: Path = SERVICE_ACCOUNT) -> tuple[Path, ...]:
    """Return every file that holds a part of an access: the kubeconfigs, and the certificates and tokens they name."""
    if not access.files:
        return service_account / "ca.crt", service_account / "token"
    found = dict.fromkeys(access.files)
    for path in access.files:
        content = _content(path)
        for section, kind, keys in _NAMING:
            for _, value in _entries(content, section, kind):
                found |= dict.fromkeys(path.parent / str(value[key]) for key in keys if value.get(key))
    return tuple(found)


def named_entry(files: Iterable[Path], section: str, kind: str, name: str) -> tuple[Path, Mapping[str, Any]] | None:
    """Return the file with the first cluster, user or context of a name, and its content. None if there is none."""
    for path in files:
        for each, value in _entries(_content(path), section, kind):
            if each == name:
                return path, value
    return None


def _files(kubeconfig: Path | None, environ: Mapping[str, str]) -> dict[Path, Mapping[str, Any]]:
    """Return the content of each kubeconfig file that is not empty, in the order of precedence."""
    if kubeconfig is not None:
        return {kubeconfig: _content(kubeconfig)}
    listed = [_expanded(each) for each in environ.get(VARIABLE, "").split(os.pathsep) if each]
    found = [path for path in listed or [_default_file(environ)] if path.is_file()]
    if listed and not found:
        names = ", ".join(map(str, listed))
        raise InputError(
            f"${VARIABLE} names only files that do not exist: {names}; correct it, or specify a kubeconfig file with "
            "--kubeconfig"
        )
    contents = {path: _content(path) for path in found}
    return {path: content for path, content in contents.items() if content}


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # there is no home
        return Path(text)


def _default_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    try:
        folder = Path(home) if home else Path.home()
    except RuntimeError:  # a user without a name, as the random one of a pod of OpenShift
        folder = Path("/")
    return folder / ".kube" / "config"


def _content(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        content = yaml.load(data, _LOADER) if len(data) <= _MAX_BYTES else None  # noqa: S506 - a safe one
    except OSError as error:
        raise _unusable(path, str(error.strerror or error)) from None
    except (yaml.YAMLError, UnicodeError, RecursionError):
        raise _unusable(path, "not valid YAML") from None  # the text may hold credentials and is not shown
    if len(data) > _MAX_BYTES:
        raise _unusable(path, f"larger than {_MAX_BYTES} bytes")
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _unusable(path, "not a mapping")
    return content


def _unusable(path: Path, problem: str) -> InputError:
    return InputError(f"{path}: {problem}; specify a kubeconfig file with access to the API server")


def _in_files(files: Mapping[Path, Mapping[str, Any]], context: str | None) -> ClusterAccess:
    names = ", ".join(map(str, files))
    contexts = _contexts(files.values())
    current = next((str(each["current-context"]) for each in files.values() if each.get("current-context")), "")
    chosen = context if context is not None else current
    if not chosen:
        remedy = f"{_known(contexts)}; {'specify' if contexts else 'use a file that has'} one"
        raise InputError(f"{names}: no current context; {remedy}")
    if chosen not in contexts:
        raise InputError(f"{names}: there is no context {shown(chosen)}; {_known(contexts)}")
    namespace = contexts[chosen].get("namespace")
    return ClusterAccess(tuple(files), chosen, str(namespace) if namespace else "")


def _contexts(contents: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for content in contents:
        for name, value in _entries(content, "contexts", "context"):
            found.setdefault(name, value)
    return found


def _entries(content: Mapping[str, Any], section: str, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the content of each entry of a section."""
    listed = content.get(section)
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            value = each.get(kind)
            yield each["name"], value if isinstance(value, dict) else {}


def _known(names: Iterable[str]) -> str:
    known: Sequence[str] = sorted(names)
    if not known:
        return "the file has no contexts"
    return f"known contexts are {name_list(known)}"


def _namespace_of_pod(service_account: Path) -> str:
    try:
        return (service_account / "namespace").read_text("utf-8").strip()
    except (OSError, UnicodeError):
        return ""
