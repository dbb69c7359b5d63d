#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions of the guest for this experiment; used after experiments/kernel_guest/guest.sh.

# Runs a command of the cgroup, which this shell is not in.
in_cgroup() {
	# shellcheck disable=SC2016
	bash -c 'echo $$ >'"$BENCH"'/cgroup.procs; exec "$@"' _ "$@"
}

# search PASSES TREE: how long so many searches of the tree take, one after the other.
search() {
	local passes=$1 tree=$2 begun pass
	# Of the tree alone is the cgroup to hold pages, not of the program.
	rg --threads 2 --no-messages --count no_such_words_here "$0" || [ $? -eq 1 ]
	begun=$(date +%s%N)
	for ((pass = 0; pass < passes; pass++)); do
		# Exit status 1: nothing was found, which is what is wanted.
		in_cgroup rg --threads 2 --no-messages --no-ignore --count no_such_words_here "$tree" ||
			[ $? -eq 1 ]
	done
	echo "{\"seconds\":$(awk "BEGIN { print ($(date +%s%N) - $begun) / 1e9 }")}"
	cat "$BENCH/memory.stat" >&2
}

# with_tasks POLICY TUNABLE PATTERN COMMAND...: attaches the policy once the command has printed
# which tasks the tunable is to list, then lets the command go on.
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

# swap_under_load PLAYER...: swaps lru for lru three times while the player plays.
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
