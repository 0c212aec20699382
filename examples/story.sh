#!/bin/sh
# What `make run` tells: five short stories on the fleet of clusters.yaml, and both services at work, each with the
# command that tells it.
set -eu
berthmaster=$1
cd "$(dirname "$0")/.."

tell() { printf '\n\033[1m%s\033[0m\n' "$1" | if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
show() { printf '$ berthmaster %s\n' "$*"; "$berthmaster" "$@"; }

tell '(a) Groups in order: dc-shanghai has no cluster in the fleet, so dc-beijing takes nginx ...'
show simulate -f examples/clusters.yaml -f examples/groups
tell '... and when its cluster is lost, dc-hongkong does.'
show simulate -f examples/clusters.yaml -f examples/groups --down member1

tell '(b) Static weights 2:1 over member1 and member2.'
show simulate -f examples/clusters.yaml -f examples/weights

tell '(c) Two policies claim one Deployment: the higher priority wins.'
show explain -f examples/clusters.yaml -f examples/priorities Deployment/checkout

tell '(d) Spread over two regions and three clusters.'
show explain -f examples/clusters.yaml -f examples/regions Deployment/catalog

tell '(e) One that fits nowhere, and why.'
show explain -f examples/clusters.yaml -f examples/nowhere Deployment/trainer

tell '(f) Both services on loopback, asked real questions.'
show demo
