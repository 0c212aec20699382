#!/bin/sh
# Compile the pins: run.txt for users, dev.txt with the development tools, e2e.txt for the e2e tests, docs.txt for the
# site of docs/, build.txt for the wheel, image.txt for the image. The files contain hashes and no index addresses.
set -eu
uv=$1
flags="--quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header --generate-hashes --no-config"
"$uv" pip compile $flags pyproject.toml --output-file requirements/run.txt
"$uv" pip compile $flags --constraint requirements/run.txt --group test --group lint --output-file requirements/dev.txt
"$uv" pip compile $flags --constraint requirements/dev.txt --group e2e --output-file requirements/e2e.txt
"$uv" pip compile $flags --constraint requirements/dev.txt --group docs --output-file requirements/docs.txt
"$uv" pip compile $flags --constraint requirements/dev.txt --extra estimator --extra postgresql --extra traces pyproject.toml --output-file requirements/image.txt
"$uv" pip compile $flags --group build --output-file requirements/build.txt
