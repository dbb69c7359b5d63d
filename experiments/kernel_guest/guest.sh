#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions for scripts that experiments run in the guest. To be sourced. $OUT is the folder for the
# output of steps.

BENCH=/sys/fs/cgroup/bench
AGENT="${CACHEPILOT_AGENT:-cachepilot-agent}"

# step NAME FUNCTION ARGUMENTS...: runs a step. Its output becomes $OUT/NAME.out when it has
# succeeded; the errors of a failed step become $OUT/NAME.failed.
step() {
	local name=$1 begun=$SECONDS status
	shift
	# This must not be part of a condition, because bash ignores `set -e` there.
	(set -e; "$@") >"$OUT/$name.partial" 2>"$OUT/$name.err"
	status=$?
	if [ $status -eq 0 ]; then
		mv "$OUT/$name.partial" "$OUT/$name.out"
		echo "$name: $((SECONDS - begun)) s"
	else
		echo "$name: status $status after $((SECONDS - begun)) s"
		mv "$OUT/$name.err" "$OUT/$name.failed"
	fi
	detach
}

# fresh_cgroup BYTES: creates an empty cgroup with this limit, with nothing in the page cache.
fresh_cgroup() {
	local bytes=$1
	sync
	echo +memory +io >/sys/fs/cgroup/cgroup.subtree_control
	echo 3 >/proc/sys/vm/drop_caches
	[ ! -d "$BENCH" ] || rmdir "$BENCH"
	mkdir "$BENCH"
	echo "$bytes" >"$BENCH/memory.max"
	[ ! -e "$BENCH/memory.swap.max" ] || echo 0 >"$BENCH/memory.swap.max"
}

# Selects the kernel's own LRU for all cgroups: default has two lists, mglru has generations.
native_lru() {
	case $1 in
	default) echo 0 >/sys/kernel/mm/lru_gen/enabled ;;
	mglru) echo 7 >/sys/kernel/mm/lru_gen/enabled ;;
	*) echo "native_lru: default or mglru, not $1" >&2 && return 1 ;;
	esac
}

# policy NAME [KEY=VALUE...]: attaches a policy with these tunables. `default` and `mglru.native`
# select the kernel's own.
policy() {
	local name=$1 set=() pair
	shift
	case $name in
	default) native_lru default && return ;;
	mglru.native) native_lru mglru && return ;;
	esac
	native_lru default
	for pair in "$@"; do set+=(--set "$pair"); done
	"$AGENT" policy attach --cgroup "$BENCH" --policy "$name" "${set[@]}" >&2
}

# readahead NAME: attaches a readahead policy. `none` stays with the kernel's own readahead.
readahead() {
	[ "$1" = none ] ||
		"$AGENT" policy attach --kind readahead --cgroup "$BENCH" --policy "$1" >&2
}

# Sets the readahead of the device, which is the largest window of the kernel's own readahead.
readahead_kib() {
	echo "$1" >/sys/block/vda/queue/read_ahead_kb
}

detach() {
	[ -e "$BENCH/memory.cache_ext" ] || return 0
	grep -q '^policy none$' "$BENCH/memory.cache_ext" ||
		"$AGENT" policy detach --cgroup "$BENCH" >/dev/null 2>&1 || true
	grep -q '^prefetch_policy none$' "$BENCH/memory.cache_ext" ||
		"$AGENT" policy detach --kind readahead --cgroup "$BENCH" >/dev/null 2>&1 || true
}

# make_file PATH BYTES: makes a file of written blocks, because reads of a hole would not reach the
# disk.
make_file() {
	local path=$1 bytes=$2
	[ "$(stat -c %s "$path" 2>/dev/null)" = "$bytes" ] && return
	head -c "$bytes" /dev/zero | tr '\0' 'x' >"$path"
	sync
}
