#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs in the guest. Gives the loader a sequence of commands, many of which it must refuse, and
# prints each command, its output, and then its exit status.
# Usage: loader_commands.sh AGENT
agent=$1
cgroup=/sys/fs/cgroup/loaded

answer() {
	echo "\$ $*"
	"$agent" policy "$@" 2>&1
	echo "= $?"
}

mkdir "$cgroup" "$cgroup/child"
echo +memory >"$cgroup/cgroup.subtree_control"
answer swap --cgroup "$cgroup" --policy lru
answer detach --cgroup "$cgroup"
answer set --cgroup "$cgroup" pages_per_candidate=8
answer stat
answer attach --cgroup /sys/fs/cgroup --policy lru
answer attach --cgroup "$cgroup" --policy lfu --set pages_per_candidate=5
answer attach --cgroup "$cgroup" --policy lru
answer stat --cgroup "$cgroup"
answer set --cgroup "$cgroup" pages_per_candidate=8
answer set --cgroup "$cgroup" pages_per_candidate=1
answer stat --cgroup "$cgroup"
answer stat --cgroup "$cgroup/child"
answer detach --cgroup "$cgroup/child"
answer attach --cgroup "$cgroup/child" --policy get_scan --set scan_tasks=7 --set scan_tasks.1=8
answer stat --cgroup "$cgroup/child"
answer swap --cgroup "$cgroup" --policy s3fifo
answer stat
rmdir "$cgroup/child"
sleep 1
answer stat
answer detach --cgroup "$cgroup"
ls /sys/fs/bpf/cachepilot
