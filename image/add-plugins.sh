#!/bin/sh
# Add plugins to an environment that install.py made. image/plugins.Containerfile and the tests run this script.
#
#   add-plugins.sh TARGET FOLDER...
#
# Each FOLDER has the sources of one distribution (docs/extending.md). PYTHON names the interpreter that builds; the
# default is python3. Dependencies are not installed: berthmaster is there, and install others, pinned, in the same way.
set -eu

target=$1
shift
pip="-m pip --disable-pip-version-check --no-cache-dir --no-input --quiet"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ $# -eq 0 ]; then
    echo "add-plugins.sh: name at least one folder with the sources of a plugin" >&2
    exit 1
fi

"${PYTHON:-python3}" -m venv "$work/build"
"$work/build/bin/python" $pip wheel --no-deps --wheel-dir "$work/wheels" "$@"
"$work/build/bin/python" $pip --python "$target/bin/python" install --no-compile --no-deps --no-index "$work"/wheels/*.whl
"$target/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$target/lib"

# A plugin that cannot be loaded ends the build here, not the pods later.
"$target/bin/python" -c "
from berthmaster.scheduling.karmada.profile import built_in
from berthmaster.scheduling.profile import with_third_parties
with_third_parties(built_in(workload_affinity=False))"
