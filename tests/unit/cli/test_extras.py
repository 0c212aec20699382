"""What an installation without extras can do, and what the others say."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIBRARIES = ("authlib", "flask", "gunicorn", "prometheus_client", "sqlalchemy")
# As if the libraries were not installed.
BARE = f"""\
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LIBRARIES!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from berthmaster_cli.main import run
run()
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {}}]
current-context: a
"""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def bare(line):
    words = [sys.executable, "-c", BARE, *line.split()]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)  # noqa: S603


@pytest.mark.parametrize(
    "line",
    [
        "simulate -f examples",
        "explain -f examples Deployment/nginx",
        "why-not -f examples Deployment/nginx member3",
        "plan --against examples/clusters.yaml --against examples/groups -f examples-plan/nginx.yaml",
        "resilience -f examples",
        "lint -f examples",
        "doctor --help",
        "drain --help",
        "undrain --help",
        "moves --help",
        "shadow report --help",
        "--help",
    ],
)
def test_commands_that_read_need_no_extra(line):
    done = bare(line)
    assert (done.returncode, "extra" in done.stderr) == (0, False)


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("webhook --cert-file tls.crt --key-file tls.key --bind 127.0.0.1:0", "webhook"),
        ("extender -f examples/clusters.yaml --bind 127.0.0.1:0", "extender"),
        ("controllers --kubeconfig KUBECONFIG --probe-bind 127.0.0.1:0", "controllers"),
        ("console", "console"),
        ("certs --help", "certs"),
        ("register --help", "certs"),
    ],
)
def test_a_service_names_its_extra_in_one_line(line, extra, tmp_path):
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    done = bare(line.replace("KUBECONFIG", str(tmp_path / "kubeconfig")))
    command = line.split()[0]
    assert done.returncode == 2
    assert done.stderr.startswith(f"berthmaster: berthmaster {command} needs the extra '{extra}': ")
    assert f"[{extra}]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert extra in PROJECT["optional-dependencies"]


def test_the_libraries_of_services_are_in_extras_only():
    names = " ".join(PROJECT["dependencies"]).lower()
    assert [each for each in ("flask", "gunicorn", "prometheus", "authlib", "sqlalchemy") if each in names] == []
    [everything] = PROJECT["optional-dependencies"]["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    assert named == PROJECT["optional-dependencies"].keys() - {"all", "parquet"}
