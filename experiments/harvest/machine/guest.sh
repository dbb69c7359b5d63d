#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One run in the guest, which consists of rounds. In a round all sides play some streams at the same
# time. Each side plays each stream in its own cgroup /SIDE/STREAM, on its own file, from an empty
# page cache. Parameters are environment variables:
#
#   AGENT, PLAYER   the agent and the player of streams
#   AGENT_CONFIG    the agent's configuration, whose tenants are those of the side autopilot
#   ROUNDS          a file of lines ROUND STREAM PAGES PATH: the number of pages of the stream's file,
#                   and the path of the stream of page numbers
#   SIDES           a file of lines SIDE POLICY; the policy - is the kernel's own
#   LIMIT_BYTES     the limit of each cgroup
#   PLAY_SECONDS    how long a round lasts
#   OUT             the folder for ROUND.begin (seconds since 1970), SIDE.STREAM (the output of a
#                   player) and SIDE.STREAM.cache_ext (the counts of the framework)
# shellcheck disable=SC2153 # they are of the environment
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=../../autopilot/guest_common.sh
. "$(dirname "$0")/../../autopilot/guest_common.sh"

# each FUNCTION ARGUMENT...: calls the function for every cgroup of the round, with SIDE POLICY
# STREAM PAGES PATH as further arguments.
each() {
	local side policy number stream pages path
	while read -r side policy <&4; do
		while read -r number stream pages path <&5; do
			[ "$number" != "$round" ] || "$@" "$side" "$policy" "$stream" "$pages" "$path"
		done 5<"$ROUNDS"
	done 4<"$SIDES"
}

file() {
	local side=$1 stream=$3 pages=$4 first=$scratch/$3
	# The blocks are written, because reads of a hole would not reach the disk.
	[ -e "$first" ] || head -c $((4096 * pages)) /dev/urandom >"$first"
	cp "$first" "$scratch/$side.$stream"
}

# The limit is memory.max, which is exact to a page, while charges in advance may exceed
# memory.high.
cgroup() {
	local path=$root/$1/$3
	mkdir -p "$root/$1"
	echo +memory +io >"$root/$1/cgroup.subtree_control"
	mkdir "$path"
	echo "$LIMIT_BYTES" >"$path/memory.max"
	[ ! -e "$path/memory.swap.max" ] || echo 0 >"$path/memory.swap.max"
	[ "$2" = - ] || "$AGENT" policy attach --cgroup "$path" --policy "$2" >/dev/null
}

# The player joins its cgroup itself when it has loaded the stream.
play() {
	"$PLAYER" --file "$scratch/$1.$3" --stream "$5" --seconds "$PLAY_SECONDS" --every-ms 1000 \
		--cgroup "$root/$1/$3" >"$OUT/$1.$3" 2>&1 &
	players+=($!)
}

finish() {
	local path=$root/$1/$3
	cat "$path/memory.cache_ext" >"$OUT/$1.$3.cache_ext" 2>/dev/null || true
	[ "$2" = - ] || "$AGENT" policy detach --cgroup "$path" >/dev/null || true
	until rmdir "$path" 2>/dev/null; do sleep 0.1; done
	rm "$scratch/$1.$3"
}

network
prepare_kernel
"$AGENT" run --config "$AGENT_CONFIG" >"$OUT/agent.log" 2>&1 &
agent=$!
mapfile -t rounds < <(cut -d ' ' -f 1 "$ROUNDS" | sort -un)
for round in "${rounds[@]}"; do
	say "round $round: files"
	each file
	sync
	say "round $round: policies"
	each cgroup
	echo 3 >/proc/sys/vm/drop_caches
	say "round $round: $PLAY_SECONDS s"
	players=()
	echo "$EPOCHREALTIME" >"$OUT/$round.begin"
	each play
	stay "$PLAY_SECONDS" "$agent"
	for player in "${players[@]}"; do wait "$player"; done
	each finish
done
kill "$agent"
wait "$agent" || say "the agent ended with status $?"
sync
say "done"
