#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One run in the guest. The sides run one after the other, with the same programs and the same
# files. Each side has its own cgroups below /SIDE and its own agent, which reports to its own
# controller. Parameters are environment variables:
#
#   AGENT, YCSB    the agent and the YCSB client
#   TENANTS        a file of lines NAME KIND ARGUMENT...; KIND is ycsb or search
#   SIDES          a file of lines NAME SECONDS CONFIG; CONFIG is the agent's
#   LIMIT_BYTES    the first limit of each cgroup
#   RECORDS        number of records of each database
#   SOURCES        a folder of the host that is searched
#   OUT            the folder for SIDE.begin (when the side's programs began, seconds since 1970) and
#                  SIDE.TENANT (the output of a program)
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=../guest_common.sh
. "$(dirname "$0")/../guest_common.sh"

# Each tenant has its own files, because a page is charged to the cgroup that accesses it first.
files() {
	local name kind first=
	while read -r name kind _; do
		say "files of $name"
		if [ "$kind" = search ]; then
			cp -r "$SOURCES" "$scratch/$name"
		elif [ -n "$first" ]; then
			cp -r "$scratch/$first" "$scratch/$name"
		else
			first=$name
			"$YCSB" load "$scratch/$name" --records "$RECORDS"
		fi
	done <"$TENANTS"
	sync
}

# passes TREE ARGUMENT...: searches the tree again and again, and prints the time after each pass.
# It runs in the cgroup.
passes() {
	local tree=$1
	shift
	while rg --no-mmap --no-config --count-matches "$@" "$tree" >/dev/null; do
		echo "$EPOCHREALTIME"
	done
}

cgroup() {
	mkdir "$1"
	echo "$LIMIT_BYTES" >"$1/memory.high"
	[ ! -e "$1/memory.swap.max" ] || echo 0 >"$1/memory.swap.max"
}

begin() {
	local side=$1 seconds=$2 name kind words
	sync
	echo 3 >/proc/sys/vm/drop_caches
	# Loads the programs outside the tenants' cgroups, so that no tenant is charged for their pages.
	rg --version >/dev/null
	"$YCSB" keys --operations 1 >/dev/null
	echo +memory +io >"$root/$side/cgroup.subtree_control"
	while read -r name kind words; do cgroup "$root/$side/$name"; done <"$TENANTS"
	echo "$EPOCHREALTIME" >"$OUT/$side.begin"
	while read -r name kind words; do
		if [ "$kind" = search ]; then
			(
				echo "$BASHPID" >"$root/$side/$name/cgroup.procs"
				# shellcheck disable=SC2086  # words
				passes "$scratch/$name" $words
			) >"$OUT/$side.$name" 2>&1 &
		else
			# The client joins its cgroup itself when the database is open.
			# shellcheck disable=SC2086  # words
			"$YCSB" run "$scratch/$name" --records "$RECORDS" --seconds "$seconds" \
				--cgroup "$root/$side/$name" $words >"$OUT/$side.$name" 2>&1 &
		fi
		started+=($!)
	done <"$TENANTS"
}

finish() {
	local side=$1 name
	while read -r name _; do
		echo 1 >"$root/$side/$name/cgroup.kill"
		until rmdir "$root/$side/$name" 2>/dev/null; do sleep 0.1; done
	done <"$TENANTS"
	wait "${started[@]}" 2>/dev/null || true
	sleep 2
	kill "$agent"
	wait "$agent" || say "the agent ended with status $?"
	rmdir "$root/$side"
}

network
prepare_kernel
files
while read -r side seconds config <&3; do
	say "side $side, $seconds s"
	started=()
	mkdir "$root/$side"
	# shellcheck disable=SC2153 # of the environment
	"$AGENT" run --config "$config" >"$OUT/$side.agent.log" 2>&1 &
	agent=$!
	# Waits until the agent samples, so that it sees the first accesses.
	sleep 3
	begin "$side" "$seconds"
	stay "$seconds" "$agent"
	cat "$root/$side"/*/memory.cache_ext >"$OUT/$side.cache_ext" 2>/dev/null || true
	finish "$side"
done 3<"$SIDES"
sync
say "done"
