#!/bin/sh
# Install berthmaster into a new virtual environment. The Containerfile and the tests run this script.
#
#   install.sh TARGET [PYTHON]
#
# TARGET must not exist. All packages are pinned wheels, checked by their hashes. Nothing is compiled. The result contains
# neither pip nor a builder. The script may run from any folder; it uses the sources beside it.
set -eu

target=$1
python=${2:-python3}
source=$(cd "$(dirname "$0")/.." && pwd)
pins="$source/requirements"
pip="-m pip --disable-pip-version-check --no-cache-dir --no-input --quiet"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -e "$target" ]; then
    echo "install.sh: $target already exists" >&2
    exit 1
fi

if [ ! -e "$source/console/static/vendor/LICENSES.txt" ]; then
    echo "install.sh: the scripts of the console are missing; run \`make console-assets\` before the build" >&2
    exit 1
fi

# Build the wheel with the pinned builder in a temporary environment.
"$python" -m venv "$work/build"
"$work/build/bin/python" $pip install --require-hashes --only-binary=:all: -r "$pins/build.txt"
"$work/build/bin/python" $pip wheel --no-deps --no-build-isolation --wheel-dir "$work/wheel" "$source"

# The target has no pip: the builder's pip installs into it.
"$python" -m venv --without-pip "$target"
into="$work/build/bin/python $pip --python $target/bin/python install --no-compile"
$into --require-hashes --only-binary=:all: -r "$pins/image.txt"
$into --no-deps --no-index --find-links "$work/wheel" berthmaster # by name: a path would be recorded in the result

# Compile all modules now, because the file system is read-only at run time. Hash-based files do not depend on build time.
"$target/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$target/lib"
"$target/bin/berthmaster" --version
