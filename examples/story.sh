#!/bin/sh
# The examples of `make story`, after those of `make run`: the ledger, a replay, and both services.
set -eu
berthmaster=$1
cd "$(dirname "$0")/.."

title() { printf '\n\033[1m%s\033[0m\n' "$1" | if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
run() { printf '$ berthmaster %s\n' "$*"; "$berthmaster" "$@"; }

title '(g) The ledger: every decision on record. What moved when and why, which change made the difference, and a replay.'
ledger=$(mktemp -d)
trap 'rm -rf "$ledger"' EXIT
BERTHMASTER_LEDGER=sqlite:///$ledger/ledger.db
export BERTHMASTER_LEDGER
run simulate -f examples/karmada/clusters.yaml -f examples/karmada/groups --down member1 --failover=on --ledger "$BERTHMASTER_LEDGER"
run history deploy/nginx
run explain deploy/nginx --diff
run why-not deploy/nginx member3 --at 0s
run replay --check

title '(h) Both services on loopback, with requests and responses.'
run demo
