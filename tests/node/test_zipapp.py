"""The command as one file, in a root that has Python, and no package of it, no network and no home to write to."""

import os
import platform
import subprocess
from pathlib import Path

import pytest
from e2e.assets import MissingAssetError
from e2e.conftest import needed

ROOT = Path(__file__).parents[2]
FILE = ROOT / "dist" / f"berthmaster-linux-{'arm64' if platform.machine() == 'aarch64' else 'amd64'}.pyz"
LIMIT_S = 300
BARE = """
mount --bind -o ro /usr "$1/usr"
mount -t tmpfs none "$1/usr/lib/python3/dist-packages"
for each in bin lib lib64; do ln -s "usr/$each" "$1/$each"; done
mknod -m 666 "$1/dev/null" c 1 3
cp -r "$2" "$1/examples"
cp "$3" "$1/berthmaster"
"""


@pytest.fixture(scope="module")
def zipapp() -> Path:
    """The file that `make zipapp` has built: a node has no network to fetch packages."""
    needed(_built)
    return FILE


def _built() -> None:
    if os.geteuid() or os.environ.get("BERTHMASTER_NODE") != "namespaces":
        raise MissingAssetError("a bare root needs root and namespaces: run `make e2e-node` as root on Debian 12")
    if not FILE.exists():
        raise MissingAssetError(f"there is no {FILE}: run `make zipapp`")


def test_the_file_runs_in_a_bare_root(zipapp: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for each in ("usr", "cache", "dev"):
        (root / each).mkdir(parents=True)
    script = f'set -e\n{BARE}\nshift 3\nexec /usr/sbin/chroot {root} /usr/bin/python3 /berthmaster "$@"'

    def run(*words: str) -> str:
        # The mounts end with the process.
        command = ["unshare", "--mount", "--net", "sh", "-c", script, "sh", root, ROOT / "examples", zipapp, *words]
        environment = {"PATH": "/usr/sbin:/usr/bin:/bin", "XDG_CACHE_HOME": "/cache"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        for each in ("bin", "lib", "lib64"):
            (root / each).unlink()
        (root / "dev" / "null").unlink()
        subprocess.run(["rm", "-r", root / "examples"], check=True)
        return done.stdout

    assert run("--help").startswith("Usage: berthmaster")
    assert "PASS  nginx survives the loss of its region" in run("test", "/examples/tests")
    assert "claimed by PropagationPolicy default/nginx" in run("explain", "-f", "/examples/karmada", "deploy/nginx")
    assert len([*(root / "cache" / "berthmaster" / "zipapp").iterdir()]) == 1, "the packages are unpacked once"
