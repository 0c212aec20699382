"""What Containerfile runs, run here: the image's environment, made of the files that it copies and of nothing else."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 600
CLEAN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


def run(command, limit_s=120, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, **more)


def succeeds(command, limit_s=LIMIT_S, **more):
    done = run(command, limit_s, **more)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    return done.stdout


def settings(*more):
    """pip's own settings stay: where packages come from is the machine's business."""
    kept = ("PIP_", "SSL_", "HTTP", "http", *more)
    return {"HOME": os.environ.get("HOME", ""), **{key: os.environ[key] for key in os.environ if key.startswith(kept)}}


def copy(name, target):
    """Copy a file or folder of the repository."""
    if (ROOT / name).is_dir():
        shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(ROOT / name, target)


def copied():
    """What Containerfile's first stage copies, by where it comes from."""
    first = (ROOT / "Containerfile").read_text().partition("\n# The same base")[0]
    for line in re.findall(r"^COPY (.+)$", first, re.MULTILINE):
        *sources, _ = line.split()
        yield from sources


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    source = folder / "source"
    source.mkdir()
    for name in copied():
        (source / name).parent.mkdir(exist_ok=True)
        copy(name, source / name)
    target = folder / "berthmaster"
    succeeds([sys.executable, source / "image" / "install.py", target], env={**CLEAN, **settings("UV_")})
    shutil.rmtree(source)  # nothing may depend on it
    return target


def python(environment, code):
    return succeeds([environment / "bin" / "python", "-I", "-c", code], 60, env=CLEAN)


def berthmaster(environment, *arguments, **more):
    return run([environment / "bin" / "berthmaster", *arguments], env=CLEAN, **more)


def test_unit_tests_pass_without_the_files_that_the_image_leaves_out(environment):
    """pytest comes from the environment of the tests. All packages of the image are found first."""
    site = Path(pytest.__file__).parents[1]
    paths = [f"tests/unit/{name}" for name in ("kube", "ledger", "extender", "serving")]
    code = (
        f"import sys; sys.path.append({str(site)!r});"
        f"import pygments.lexers; pygments.lexers.__path__.append({str(site / 'pygments' / 'lexers')!r});"
        "import pytest, kubernetes; assert kubernetes.__file__.startswith(sys.prefix);"
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *{paths!r}]))"
    )
    succeeds([environment / "bin" / "python", "-c", code], cwd=ROOT, env=CLEAN)


def test_every_module_can_be_imported(environment):
    code = (
        "import importlib, pkgutil, sys\n"
        "for name in ('berthmaster', 'webhook', 'extender', 'certs', 'console', 'berthmaster_cli'):\n"
        "    for found in pkgutil.walk_packages(importlib.import_module(name).__path__, name + '.'):\n"
        "        if found.name not in ('berthmaster.interpreters.sandbox', 'berthmaster.ledger.migrations.env'):\n"
        "            importlib.import_module(found.name)\n"
        "print(len(sys.modules))"
    )
    assert int(python(environment, code)) > 1000


INSTALLED = """
import importlib.metadata, json
found = importlib.metadata.distributions()
print(json.dumps({each.metadata["Name"].lower().replace("_", "-"): each.version for each in found}))
"""


def test_it_holds_the_pins_and_nothing_else(environment):
    text = (ROOT / "requirements" / "image.txt").read_text()
    pinned = set(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", text, re.MULTILINE))  # some by version of Python
    installed = json.loads(python(environment, INSTALLED))
    ours = installed.pop("berthmaster")
    assert ours
    assert set(installed.items()) <= pinned
    assert "pip" not in installed
    assert "hatchling" not in installed


def test_the_command_knows_its_version_and_every_service(environment):
    assert berthmaster(environment, "--version").stdout.startswith("berthmaster ")
    for service in ("webhook", "extender"):
        assert "Usage:" in berthmaster(environment, service, "--help").stdout


def test_it_has_what_asks_estimators(environment):
    assert python(environment, "import grpc; print(grpc.__version__)").strip()


def test_it_decides_a_real_question(environment, tmp_path):
    examples = [f"--filename={ROOT / 'examples/karmada' / name}" for name in ("clusters.yaml", "groups")]
    done = berthmaster(environment, "simulate", *examples, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "member1" in done.stdout


def test_everything_is_compiled_and_stays_so_without_writing(environment):
    code = (
        "import sys, berthmaster, berthmaster_cli.main, webhook.serving, extender.serving, pathlib;"
        "print([m.__name__ for m in list(sys.modules.values()) if getattr(m, '__cached__', None)"
        " and 'site-packages' in (m.__file__ or '') and not pathlib.Path(m.__cached__).exists()])"
    )
    assert python(environment, code).strip() == "[]"
    stray = [path for path in environment.rglob("*.pyc") if path.read_bytes()[4:8] != b"\x01\0\0\0"]
    assert stray == [], "compiled files that depend on the time of their sources"


def test_the_wheel_installs_these_packages_at_top_level_and_nothing_else(environment):
    code = (
        "import importlib.metadata, json;"
        "files = importlib.metadata.files('berthmaster');"
        "print(json.dumps(sorted({each.parts[0] for each in files})))"
    )
    top = [name for name in json.loads(python(environment, code)) if name != ".." and "dist-info" not in name]
    assert top == ["berthmaster", "berthmaster_cli", "certs", "console", "extender", "webhook"]


def test_it_has_the_scripts_of_the_console_with_their_licences(environment):
    code = (
        "import console, pathlib;"
        "print(*(each.name for each in (pathlib.Path(console.__file__).parent / 'static' / 'vendor').iterdir()))"
    )
    files = python(environment, code).split()
    assert "LICENSES.txt" in files
    assert "idiomorph.min.js" in files
    assert not list(environment.rglob("package-lock.json"))


def test_it_refuses_to_build_without_the_scripts_of_the_console(tmp_path):
    shutil.copytree(ROOT / "image", tmp_path / "image")
    done = run([sys.executable, tmp_path / "image" / "install.py", tmp_path / "target"])
    assert done.returncode == 1
    assert "make console-assets" in done.stderr


def test_nothing_in_it_remembers_the_sources(environment):
    link = python(environment, "import berthmaster; print(berthmaster.__file__)").strip()
    assert link.startswith(str(environment))
    assert not list(environment.rglob("direct_url.json"))


def test_every_command_works_after_the_installation_of_the_readme(tmp_path):
    """As the section "Try it" says: the project and its dependencies, without extras, in an environment of its own."""
    text = (ROOT / "README.md").read_text()
    [words] = re.findall(r"# or: pip (install \.)$", text, re.MULTILINE)
    table = text.partition("## Commands")[2].partition("\n## ")[0]
    commands = sorted(set(re.findall(r"`berthmaster ([a-z-]+)", table)))
    assert len(commands) > 15
    succeeds([sys.executable, "-m", "venv", tmp_path / "venv"])
    scripts = tmp_path / "venv" / "bin"
    succeeds([scripts / "pip", "--quiet", *words.split()], cwd=ROOT, env={**os.environ, **settings("UV_")})
    for command in commands:
        assert "Usage:" in succeeds([scripts / "berthmaster", command, "--help"], 60, cwd=tmp_path, env=CLEAN)


def test_it_refuses_to_write_over_something(environment):
    done = run([sys.executable, ROOT / "image" / "install.py", environment])
    assert done.returncode == 1
    assert "already exists" in done.stderr


@pytest.fixture(scope="module")
def with_plugins(environment, tmp_path_factory):
    """The environment of the derived image: a copy of the image's, after the RUN step of plugins.Containerfile."""
    folder = tmp_path_factory.mktemp("derived")
    text = (ROOT / "image" / "plugins.Containerfile").read_text()
    for source, place in re.findall(r"^COPY (\S+) /source/(\S+)$", text, re.MULTILINE):
        copy(source, folder / place)
    [command] = re.findall(r"^RUN (.+)$", text, re.MULTILINE)
    target = folder / "berthmaster"
    shutil.copytree(environment, target, symlinks=True)
    words = [word.replace("/source", str(folder)).replace("/opt/berthmaster", str(target)) for word in command.split()]
    succeeds(words, env={**CLEAN, "PYTHON": sys.executable, **settings()})
    return target


def test_an_image_with_plugins_uses_them(with_plugins, environment, tmp_path):
    examples = [f"--filename={ROOT / 'examples/karmada' / name}" for name in ("clusters.yaml", "groups")]
    chosen = ("simulate", *examples, "--plugins=*,-LowCarbon")
    # The script in bin/ names the interpreter of the copied environment. In an image both have the same path.
    code = "import sys; from berthmaster_cli.main import run; sys.argv[0] = 'berthmaster'; run()"
    succeeds([with_plugins / "bin" / "python", "-I", "-c", code, *chosen], env=CLEAN, cwd=tmp_path)
    without = berthmaster(environment, *chosen, cwd=tmp_path)
    assert without.returncode == 2
    assert "LowCarbon" in without.stderr


def test_an_image_with_plugins_is_compiled_and_has_no_pip(with_plugins):
    assert "pip" not in json.loads(python(with_plugins, INSTALLED))
    stray = [path for path in with_plugins.rglob("*.pyc") if path.read_bytes()[4:8] != b"\x01\0\0\0"]
    assert stray == []
