"""Install berthmaster into a new environment. The Containerfile, packaging/image.py and the tests use this module.

    python3 image/install.py TARGET

TARGET must not exist. All packages are pinned wheels, checked by their hashes. Nothing is compiled from C. The result
contains neither pip nor a builder, and no file that matches image/unused.txt. The sources are those beside this script.
Only the standard library is needed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).resolve().parents[1]
SCRIPT: Final = """\
#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


class InstallError(Exception):
    """The environment cannot be made. The message names the remedy."""


@dataclass(frozen=True)
class Interpreter:
    """The Python that will run the environment.

    Attributes:
        path: where it is in the image.
        version: its version, as ``3.11``.
        platforms: pip's tags of its platform, best first. Empty means this machine.
        command: what starts a Python of this version on this machine.
    """

    path: str
    version: str
    platforms: tuple[str, ...]
    command: tuple[str, ...]


def this_python() -> Interpreter:
    """Return the interpreter that runs this script, without a virtual environment around it."""
    path = str(getattr(sys, "_base_executable", sys.executable))
    return Interpreter(path, f"{sys.version_info.major}.{sys.version_info.minor}", (), (path,))


def install(target: Path, prefix: str, python: Interpreter) -> None:
    """Make the environment.

    Args:
        target: the folder to make.
        prefix: the path of this folder in the image.
        python: what will run it.

    Raises:
        InstallError: the target exists, the scripts of the console are missing, or a command failed.
    """
    if target.exists():
        raise InstallError(f"{target} already exists: name a new folder")
    if not (SOURCE / "console" / "static" / "vendor" / "LICENSES.txt").exists():
        raise InstallError("the scripts of the console are missing: run `make console-assets` before the build")
    site = target / "lib" / f"python{python.version}" / "site-packages"
    pins = SOURCE / "requirements"
    with tempfile.TemporaryDirectory() as work:
        builder = Path(work) / "build" / "bin" / "python"
        run(sys.executable, "-m", "venv", str(Path(work) / "build"))
        pip = (str(builder), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")
        run(*pip, "install", "--require-hashes", "--only-binary=:all:", f"--requirement={pins / 'build.txt'}")
        wheels = Path(work) / "wheel"
        run(*pip, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={wheels}", str(SOURCE))
        into = (*pip, "install", "--no-compile", "--only-binary=:all:", "--no-deps", f"--target={site}")
        tags = [f"--platform={tag}" for tag in python.platforms]
        there = [*tags, f"--python-version={python.version}"] if tags else []
        run(*into, *there, "--require-hashes", f"--requirement={pins / 'image.txt'}")
        # The name, not the path of the wheel: pip would record the path in the result.
        run(*into, *there, "--no-index", f"--find-links={wheels}", "berthmaster")
    write_environment(target, prefix, python)
    for unused in ("bin", "share"):  # commands of dependencies, and man pages
        shutil.rmtree(site / unused, ignore_errors=True)
    remove_unused(site)
    ours = [site / name for name in project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
    others = [path for path in sorted(site.iterdir()) if path not in ours and (path.is_dir() or path.suffix == ".py")]
    compile_modules(python, ours, target, prefix)
    replace_modules(python, others, target, prefix)
    for record in site.glob("*.dist-info/RECORD"):
        # pip recorded the removed files too, with checksums that depend on temporary folders.
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if (site / line.partition(",")[0]).exists()))


def write_environment(target: Path, prefix: str, python: Interpreter) -> None:
    """Write what makes a folder a virtual environment, and the commands of berthmaster."""
    (target / "pyvenv.cfg").write_text(
        f"home = {Path(python.path).parent}\ninclude-system-site-packages = false\nversion = {python.version}\n"
    )
    commands = target / "bin"
    commands.mkdir()
    for name in ("python", "python3"):
        (commands / name).symlink_to(python.path)
    for name, entry in project()["project"]["scripts"].items():
        module, _, function = entry.partition(":")
        script = commands / name
        script.write_text(SCRIPT.format(python=f"{prefix}/bin/python", module=module, function=function))
        script.chmod(0o755)


def project() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    return tomllib.loads((SOURCE / "pyproject.toml").read_text())


def remove_unused(site: Path) -> None:
    """Remove the files and folders that match a line of ``unused.txt``."""
    lines = (SOURCE / "image" / "unused.txt").read_text().splitlines()
    for pattern in (line for line in lines if line and not line.startswith("#")):
        for path in sorted(site.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def compile_modules(python: Interpreter, paths: Iterable[Path], root: Path, prefix: str, *options: str) -> None:
    """Compile modules: the file system is read-only at run time. Hash-based files do not depend on build time.

    Args:
        python: the interpreter, or one of the same version.
        paths: the modules, as files and folders.
        root: a folder above them. The compiled files name ``prefix`` instead.
        prefix: the path of ``root`` in the image.
        options: more options of compileall.
    """
    wanted = ("-q", "--invalidation-mode=unchecked-hash", "-s", str(root), "-p", prefix, *options)
    run(*python.command, "-B", "-P", "-s", "-m", "compileall", *wanted, *map(str, paths))


def replace_modules(python: Interpreter, paths: Iterable[Path], root: Path, prefix: str) -> None:
    """Compile modules of others and remove their sources, a sixth of the image. Tracebacks keep the line numbers.

    A module that cannot be compiled keeps its source.
    """
    paths = list(paths)
    compile_modules(python, paths, root, prefix, "-b")
    for path in paths:
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            if source.with_suffix(".pyc").exists():
                source.unlink()


def run(*command: str) -> None:
    """Run a command.

    Raises:
        InstallError: it failed. The message has the end of its output.
    """
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False, env=environment)  # noqa: S603
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise InstallError(f"`{' '.join(command[:4])} ...` ended with {done.returncode}:\n{end}")


def main(arguments: Sequence[str]) -> int:
    """Install into the folder that the only argument names."""
    if len(arguments) != 1:
        sys.stderr.write("usage: install.py TARGET\n")
        return 2
    target = Path(arguments[0]).absolute()
    try:
        install(target, str(target), this_python())
    except InstallError as problem:
        sys.stderr.write(f"install.py: {problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
