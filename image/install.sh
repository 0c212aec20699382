#!/bin/sh
# Install berthmaster into a virtual environment of its own: what Containerfile runs, and what the tests run in its place.
#
#   install.sh TARGET [PYTHON]
#
# TARGET must not exist. Everything comes from the pins, by their hashes, as wheels: nothing is compiled, and the result
# holds neither pip nor what built it. Run from anywhere; the sources are those beside this script.
set -eu

target=$1
python=${2:-python3}
source=$(cd "$(dirname "$0")/.." && pwd)
pins="$source/requirements"
pip="-m pip --disable-pip-version-check --no-cache-dir --no-input --quiet"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -e "$target" ]; then
    echo "install.sh: $target is there already" >&2
    exit 1
fi

# The wheel, made by the pinned builder in an environment that is thrown away.
"$python" -m venv "$work/build"
"$work/build/bin/python" $pip install --require-hashes --only-binary=:all: -r "$pins/build.txt"
"$work/build/bin/python" $pip wheel --no-deps --no-build-isolation --wheel-dir "$work/wheel" "$source"

# The environment has no pip: the builder's installs into it.
"$python" -m venv --without-pip "$target"
into="$work/build/bin/python $pip --python $target/bin/python install --no-compile"
$into --require-hashes --only-binary=:all: -r "$pins/image.txt"
$into --no-deps --no-index --find-links "$work/wheel" berthmaster # by name: a path would be written down in the result

# Compiled here, once: at run time the file system is read-only. Hash-based files do not depend on the time of the build.
"$target/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$target/lib"
"$target/bin/berthmaster" --version
