#!/usr/bin/env bash
# Install berthmaster for an action, into the virtual environment $VENV.
#
# The working folder is a checkout that the author of a pull request controls. So Python starts isolated (-I), in
# another folder, and the environment has no credentials. Without $PACKAGE everything comes by the hashes of the pins in
# $SOURCE, as wheels, and the wheel of the source is built in an environment of its own.
set -euo pipefail
unset GITHUB_TOKEN GH_TOKEN KUBECONFIG
unset ACTIONS_RUNTIME_TOKEN ACTIONS_ID_TOKEN_REQUEST_TOKEN ACTIONS_ID_TOKEN_REQUEST_URL
case $PYTHON in */*) PYTHON=$(realpath -s -- "$PYTHON") ;; esac
cd "$(dirname "$VENV")"

pip_of() { local folder=$1; shift; "$folder/bin/python" -I -m pip --disable-pip-version-check --quiet "$@"; }
pinned() { pip_of "$1" install --require-hashes --only-binary=:all: --requirement "$SOURCE/requirements/$2.txt"; }

"$PYTHON" -I -m venv "$VENV"
package=${PACKAGE:-${BERTHMASTER:-}}
if [ -n "$package" ]; then
  pip_of "$VENV" install "$package"
else
  build=$VENV-build
  "$PYTHON" -I -m venv "$build"
  pinned "$build" build
  pip_of "$build" wheel --no-deps --no-build-isolation --wheel-dir "$build/dist" "$SOURCE"
  pinned "$VENV" run
  pip_of "$VENV" install --no-deps "$build"/dist/*.whl
fi
