#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs in the guest. Attaches, swaps and detaches every policy in turn on one cgroup, which reads a
# file larger than its limit. Prints a line of JSON for each step: the step, and the output of stat
# after it.
# Usage: loader.sh AGENT POLICY...
set -eu
agent=$1
shift
cgroup=/sys/fs/cgroup/loaded
file=/mnt/scratch/file

step() {
	printf '{"step": "%s", "policy": "%s", "rows": ' "$1" "$2"
	"$agent" policy stat --cgroup "$cgroup" --json | tr -d '\n'
	printf '}\n'
}

# Reads the whole file with a separate process in the cgroup.
read_file() {
	sh -c "echo \$\$ >$cgroup/cgroup.procs; exec dd if=$file of=/dev/null bs=64k" 2>/dev/null
}

mkdir "$cgroup"
echo 16M >"$cgroup/memory.max"
dd if=/dev/zero of="$file" bs=1M count=32 2>/dev/null
sync
echo 3 >/proc/sys/vm/drop_caches
step before none

for policy in "$@"; do
	"$agent" policy attach --cgroup "$cgroup" --policy "$policy" >&2
	read_file
	step attached "$policy"
	"$agent" policy detach --cgroup "$cgroup" >&2
done

"$agent" policy attach --cgroup "$cgroup" --policy lru >&2
(while :; do read_file; done) &
reader=$!
for policy in "$@"; do
	"$agent" policy swap --cgroup "$cgroup" --policy "$policy" >&2
	step swapped "$policy"
done
kill "$reader"
wait "$reader" || true
"$agent" policy detach --cgroup "$cgroup" >&2
step detached none
[ -z "$(ls /sys/fs/bpf/cachepilot)" ] || { echo "pins are left" >&2; exit 1; }
