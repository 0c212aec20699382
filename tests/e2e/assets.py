"""The binaries of a real control plane: their location and their build.

Run as a script (``make e2e-assets``) it builds what the modules under ``tools/`` pin, into a cache folder
named after those modules: a second call finds the folder and ends at once. It needs a Go toolchain, and of
Python the standard library only.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOOLS_FOLDER: Final = Path(__file__).parent / "tools"
BUILD_LIMIT_S: Final = 1800.0
HEARTBEAT_S: Final = 20.0
_SHOWN_OUTPUT: Final = 30  # lines of Go's output that an error repeats
BUILD_FLAGS: Final = ("-trimpath",)
LINKER_FLAGS: Final = ("-s", "-w")  # no symbol and debug tables: a third of the size
_VERSION_PACKAGE: Final = "k8s.io/component-base/version"


class MissingAssetError(Exception):
    """A file that the tests need from outside the repository is missing; the message says how to get it."""


class BuildError(Exception):
    """A binary could not be built; the message says why and what to do."""


@dataclass(frozen=True)
class Tool:
    """One binary.

    Attributes:
        name: the file it becomes.
        module: the folder under ``tools/`` whose go.mod pins it.
        package: the Go package that holds its main function.
        required_module: the module whose version is the binary's version.
    """

    name: str
    module: str
    package: str
    required_module: str


TOOLS: Final = (
    Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    Tool("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes"),
    Tool(
        "kube-controller-manager",
        "kubernetes",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "k8s.io/kubernetes",
    ),
    Tool("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes"),
    Tool("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes"),
    Tool("kube-proxy", "kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", "k8s.io/kubernetes"),
    Tool("kubelet", "kubernetes", "k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes"),
    Tool("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the binaries of this checkout's modules. Each pin has its own folder."""
    digest = hashlib.sha256(repr((TOOLS, BUILD_FLAGS, LINKER_FLAGS)).encode())
    for path in sorted(TOOLS_FOLDER.glob("*/go.*")):
        digest.update(path.read_bytes() + b"\0")
    base = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "berthmaster" / "e2e" / digest.hexdigest()[:16]


def binary(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The path of a binary: from ``KUBEBUILDER_ASSETS`` if that is set, else from the cache."""
    named = environment.get("KUBEBUILDER_ASSETS")
    path = (Path(named) if named else cache_folder(environment)) / name
    if os.access(path, os.X_OK):
        return path
    if named:
        advice = "unset it to use the binaries that `make e2e-assets` builds"
        raise MissingAssetError(f"KUBEBUILDER_ASSETS={named} holds no executable {name}; {advice}")
    raise MissingAssetError(f"no {name} in {path.parent}: build it once with `make e2e-assets`")


def say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: ``(1, 26, 8)`` for ``go1.26.8``."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0])[:3])


def go_version() -> str:
    """The Go toolchain that will build, as ``go1.26.8``; asked in ``tools/``, where Go may take a newer one."""
    if not shutil.which("go"):
        raise BuildError(f"no `go` on the PATH: install Go {wanted_go()} or newer (https://go.dev/dl/)")
    found = go_output("etcd", "version").split()[2]
    if numbers(found) < numbers(wanted_go()):
        raise BuildError(f"{found} is too old: the binaries need Go {wanted_go()} or newer (https://go.dev/dl/)")
    return found


def wanted_go() -> str:
    """The newest ``go`` line among the modules."""
    modules = (path.read_text() for path in TOOLS_FOLDER.glob("*/go.mod"))
    return max((line for text in modules for line in re.findall(r"^go (\S+)$", text, re.MULTILINE)), key=numbers)


def go_output(module: str, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=TOOLS_FOLDER / module, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise BuildError(f"`go {' '.join(arguments)}` failed in tools/{module}: {done.stderr.strip()}")
    return done.stdout


def version(tool: Tool) -> str:
    """The version its go.mod pins, as ``v1.36.3``."""
    module = json.loads(go_output(tool.module, "mod", "edit", "-json"))
    return next(line["Version"] for line in module["Require"] if line["Path"] == tool.required_module)


def linker_flags(tool: Tool) -> str:
    """The linker's flags; Kubernetes reports ``v0.0.0-master`` without a version stamp."""
    flags = list(LINKER_FLAGS)
    if tool.required_module == "k8s.io/kubernetes":
        major, minor, _patch = numbers(version(tool))
        stamp = {"gitVersion": version(tool), "gitMajor": major, "gitMinor": minor}
        flags += [f"-X {_VERSION_PACKAGE}.{key}={value}" for key, value in stamp.items()]
    return " ".join(flags)


def build(tool: Tool, folder: Path) -> None:
    """Build one binary into ``folder`` and print progress."""
    say(f"  {tool.name:<23} {version(tool):<8} ", end="")
    target = folder / tool.name
    command = ["go", "build", *BUILD_FLAGS, "-ldflags", linker_flags(tool), "-o", str(target), tool.package]
    log = folder / f"{tool.name}.log"
    started_s = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=TOOLS_FOLDER / tool.module,
            env={**os.environ, "CGO_ENABLED": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = wait_with_heartbeat(process, BUILD_LIMIT_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_OUTPUT:])
        raise BuildError(f"`{' '.join(command[:2])} ... {tool.package}` ended with {code}:\n{tail}")
    log.unlink()
    say(f" {time.monotonic() - started_s:.0f} s, {target.stat().st_size / 1e6:.0f} MB")


def wait_with_heartbeat(process: "subprocess.Popen[bytes]", limit_s: float) -> int:
    """Wait for the end of a process, one dot every ``HEARTBEAT_S``; its exit code."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        try:
            return process.wait(timeout=HEARTBEAT_S)
        except subprocess.TimeoutExpired:
            say(".", end="")
    raise BuildError(f"gave up after {limit_s:.0f} s")


def build_all(folder: Path) -> None:
    """Fill ``folder`` with every tool; it appears complete or not at all."""
    compiler = go_version()
    say(f"Building the control plane of the e2e tests with {compiler} into {folder}")
    say("(once for each change of its pins; about eight minutes on two cores)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    part.mkdir()
    try:
        for tool in TOOLS:
            build(tool, part)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def main() -> int:
    """Build what is missing; 0 when everything is there."""
    if named := os.environ.get("KUBEBUILDER_ASSETS"):
        say(f"The e2e tests use KUBEBUILDER_ASSETS={named}: nothing to build")
        return 0
    folder = cache_folder()
    try:
        if all(os.access(folder / tool.name, os.X_OK) for tool in TOOLS):
            say(f"The control plane of the e2e tests is built: {folder}")
            return 0
        build_all(folder)
    except BuildError as problem:
        say("")
        sys.stderr.write(f"e2e-assets: {problem}\n")
        return 1
    except KeyboardInterrupt:
        say(" interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
