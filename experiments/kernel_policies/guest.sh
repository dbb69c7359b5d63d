#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions for the guest in this experiment. To be sourced after experiments/kernel_guest/guest.sh.

# Runs a command in the cgroup. This shell itself is not in the cgroup.
in_cgroup() {
	# shellcheck disable=SC2016
	bash -c 'echo $$ >'"$BENCH"'/cgroup.procs; exec "$@"' _ "$@"
}

# search PASSES TREE: prints how long this many searches of the tree take, one after the other.
search() {
	local passes=$1 tree=$2 begun pass
	# Loads the program outside the cgroup, so that only pages of the tree are charged to the
	# cgroup.
	rg --threads 2 --no-messages --count no_such_words_here "$0" || [ $? -eq 1 ]
	begun=$(date +%s%N)
	for ((pass = 0; pass < passes; pass++)); do
		# Exit status 1 means that nothing was found, as expected.
		in_cgroup rg --threads 2 --no-messages --no-ignore --count no_such_words_here "$tree" ||
			[ $? -eq 1 ]
	done
	echo "{\"seconds\":$(awk "BEGIN { print ($(date +%s%N) - $begun) / 1e9 }")}"
	cat "$BENCH/memory.stat" >&2
}

# with_tasks POLICY TUNABLE PATTERN COMMAND...: starts the command, and attaches the policy when the
# command has printed the ids of the tasks that the tunable must list, on a line that begins with
# PATTERN. Then it lets the command continue.
with_tasks() {
	local policy=$1 tunable=$2 pattern=$3 folder program tasks=() settings=() i
	shift 3
	folder=$(mktemp -d)
	mkfifo "$folder/go"
	"$@" <"$folder/go" >"$folder/out" &
	program=$!
	exec 9>"$folder/go"
	until grep -q "^$pattern" "$folder/out"; do
		kill -0 "$program" || return 1
		sleep 0.1
	done
	IFS=' ,' read -ra tasks < <(grep "^$pattern" "$folder/out")
	if [ -n "$tunable" ]; then
		for ((i = 1; i < ${#tasks[@]}; i++)); do
			settings+=("$tunable.$((i - 1))=${tasks[i]}")
		done
	fi
	policy "$policy" "${settings[@]}"
	echo go >&9
	exec 9>&-
	wait "$program"
	cat "$folder/out"
}

# swap_under_load PLAYER...: replaces lru by lru three times while the player plays.
swap_under_load() {
	local out player
	out=$(mktemp)
	policy lru
	"$@" >"$out" &
	player=$!
	until grep -q '"at":"warm"' "$out"; do sleep 1; done
	for _ in 1 2 3; do
		sleep 11
		awk '{ printf "{\"at\":\"swap\",\"ns\":%.0f}\n", $1 * 1e9 }' /proc/uptime
		"$AGENT" policy swap --cgroup "$BENCH" --policy lru >&2
	done
	sleep 11
	kill "$player"
	wait "$player" || true
	cat "$out" "$BENCH/memory.cache_ext"
}
