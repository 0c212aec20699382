#!/bin/sh
# The examples of `make run`, without any service: each prints a title, the command and its output.
set -eu
berthmaster=$1
cd "$(dirname "$0")/.."

title() { printf '\n\033[1m%s\033[0m\n' "$1" | if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
run() { printf '$ berthmaster %s\n' "$*"; "$berthmaster" "$@"; }

title '(a) Groups in order: no cluster matches dc-shanghai, so nginx is scheduled to dc-beijing.'
run simulate -f examples/karmada/clusters.yaml -f examples/karmada/groups
title '    If the cluster of dc-beijing is lost, nginx stops. With failover it moves to dc-hongkong.'
run simulate -f examples/karmada/clusters.yaml -f examples/karmada/groups --down member1 --failover=on

title '(b) Static weights: replicas are divided 2:1 between member1 and member2.'
run simulate -f examples/karmada/clusters.yaml -f examples/karmada/weights

title '(c) Priorities: two policies match one Deployment, and the higher priority wins.'
run explain -f examples/karmada/clusters.yaml -f examples/karmada/priorities Deployment/checkout

title '(d) Spread constraints: two regions and three clusters.'
run explain -f examples/karmada/clusters.yaml -f examples/karmada/regions Deployment/catalog

title '(e) A workload that fits no cluster, and the reason for each cluster.'
run explain -f examples/karmada/clusters.yaml -f examples/karmada/nowhere Deployment/trainer

title '(f) A plan: what a changed policy would move, before it is applied.'
run plan --against examples/karmada/clusters.yaml --against examples/karmada/groups -f examples/plan/nginx.yaml

printf '\nNext: `make story` records decisions and starts both services; `make console` shows a fleet of 200 clusters.\n'
