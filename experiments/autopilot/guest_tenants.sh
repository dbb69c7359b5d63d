#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tenants in the guest: first those of the side `default`, then those of the side
# `autopilot`, with the same programs and the same files. Parameters are environment variables:
#
#   AGENT, AGENT_CONFIG   the agent and its configuration
#   YCSB, SOURCES         the YCSB client, and folders of sources on the host
#   LIMIT_BYTES           the first limit of each cgroup
#   RUN_SECONDS, CHANGE_SECONDS   how long a side runs, and when the workload of `batch` changes
#   RECORDS               number of records of each database
#
# The script does not end by itself: the host stops the guest when it has all measurements.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=guest_common.sh
. "$(dirname "$0")/guest_common.sh"
tenants=(lookups mixed search batch)

# Each tenant has its own files, because a page is charged to the cgroup that accesses it first.
files() {
	say "loading two databases of $RECORDS records"
	"$YCSB" load "$scratch/lookups" --records "$RECORDS"
	cp -r "$scratch/lookups" "$scratch/mixed"
	say "copying sources"
	mkdir "$scratch/search" "$scratch/batch"
	# shellcheck disable=SC2086
	cp -r --parents $SOURCES "$scratch/search"
	cp -r "$scratch/search/." "$scratch/batch"
	head -c 8M /dev/urandom >"$scratch/batch.fio"
	sync
}

# within CGROUP COMMAND...: runs the command in the cgroup, in the background and without output.
within() {
	local cgroup=$1
	shift
	(
		echo "$BASHPID" >"$cgroup/cgroup.procs"
		exec "$@"
	) >/dev/null 2>&1 &
	started+=($!)
}

passes() {
	while rg --threads 1 --no-mmap --no-config --count-matches include "$1" >/dev/null; do :; done
}

# The rate keeps it from taking the emulated CPU from the others once it no longer misses: with
# 10,000 reads per second, `mixed` loses a tenth of its throughput with the memory that it has.
batch() {
	fio --name=batch --filename="$scratch/batch.fio" --rw=randread --bs=4k --ioengine=psync \
		--random_distribution=zipf:0.9 --time_based --runtime="$CHANGE_SECONDS" --size=8M \
		--invalidate=0 --randseed=1 --rate_iops=2500
	passes "$scratch/batch"
}

start() {
	local side=$1 name
	local run=("$YCSB" run --records "$RECORDS" --seconds "$RUN_SECONDS" --seed 1)
	echo 3 >/proc/sys/vm/drop_caches
	mkdir "$root/$side"
	echo +memory +io >"$root/$side/cgroup.subtree_control"
	for name in "${tenants[@]}"; do
		mkdir "$root/$side/$name"
		echo "$LIMIT_BYTES" >"$root/$side/$name/memory.high"
		[ ! -e "$root/$side/$name/memory.swap.max" ] ||
			echo 0 >"$root/$side/$name/memory.swap.max"
	done
	# The client joins its cgroup itself when the database is open.
	"${run[@]}" "$scratch/lookups" --workload c --threads 2 \
		--cgroup "$root/$side/lookups" >/dev/null 2>&1 &
	started+=($!)
	"${run[@]}" "$scratch/mixed" --workload getscan --threads 2 --scan-threads 1 \
		--scan-length 4000 --cgroup "$root/$side/mixed" >/dev/null 2>&1 &
	started+=($!)
	within "$root/$side/search" bash -c "$(declare -f passes); passes $scratch/search"
	within "$root/$side/batch" bash -c "scratch=$scratch; $(declare -f passes batch); batch"
}

finish() {
	local side=$1 name
	for name in "${tenants[@]}"; do
		echo 1 >"$root/$side/$name/cgroup.kill"
	done
	wait "${started[@]}" 2>/dev/null || true
	for name in "${tenants[@]}"; do
		until rmdir "$root/$side/$name" 2>/dev/null; do sleep 0.1; done
	done
	rmdir "$root/$side"
}

network
prepare_kernel
files
say "starting the agent"
# shellcheck disable=SC2153  # given by the host
"$AGENT" run --config "$AGENT_CONFIG" &
agent=$!
for side in default autopilot; do
	say "side $side, $RUN_SECONDS s"
	started=()
	start "$side"
	stay "$RUN_SECONDS" "$agent"
	[ "$side" = autopilot ] || finish "$side"
done
say "done"
stay 1000000 "$agent"
