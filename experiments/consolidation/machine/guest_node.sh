#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a node in the guest: an agent, and a tenant for each file of a folder. The tenant starts when
# its file appears and ends when the file is removed, like static pods of the kubelet. Parameters
# are environment variables:
#
#   AGENT, AGENT_CONFIG, YCSB   the agent, its configuration, the YCSB client
#   TENANTS_DIR                 the folder, with NAME.toml for the tenant /fleet/NAME; guest_pages.sh
#                               describes its other files
#   NAMES                       all tenants. The disk has the data of each, like shared storage
#   RECORDS                     number of records of each database
#
# The script does not end by itself: the host stops the guest when it has all measurements.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=../../autopilot/guest_common.sh
. "$(dirname "$0")/../../autopilot/guest_common.sh"
# shellcheck source-path=SCRIPTDIR source=guest_pages.sh
. "$(dirname "$0")/guest_pages.sh"
declare -A clients

files() {
	local name first=
	for name in $NAMES; do
		say "files of $name"
		if [ -n "$first" ]; then
			cp -r "$scratch/$first" "$scratch/$name"
		else
			first=$name
			"$YCSB" load "$scratch/$name" --records "$RECORDS"
		fi
	done
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

# value FILE KEY: prints the value of a line `KEY = 1` or `KEY = "a b"`.
value() {
	sed -n "s/^$2 = \"\\?\\([^\"]*\\)\"\\?\$/\\1/p" "$1"
}

begin() {
	local name=$1 file=$TENANTS_DIR/$1.toml words
	say "$name begins"
	# If the tenant's pages were read before, its cgroup exists already.
	stop_reading "$name"
	mkdir -p "$root/fleet/$name"
	value "$file" limit_bytes >"$root/fleet/$name/memory.high"
	[ ! -e "$root/fleet/$name/memory.swap.max" ] || echo 0 >"$root/fleet/$name/memory.swap.max"
	words=$(value "$file" arguments)
	# The client joins its cgroup itself when the database is open.
	# shellcheck disable=SC2086  # words
	"$YCSB" run "$scratch/$name" --records "$RECORDS" --seconds 1000000 --seed 1 \
		--cgroup "$root/fleet/$name" $words >/dev/null 2>&1 &
	clients[$name]=$!
	rm -f "$TENANTS_DIR/$name.pages" "$TENANTS_DIR/$name.warm"
}

# Also drops the tenant's cached pages, so that it starts with an empty page cache if it comes back.
end() {
	local name=$1
	say "$name ends"
	kill -KILL "${clients[$name]}"
	wait "${clients[$name]}" 2>/dev/null || true
	unset "clients[$name]"
	rm -f "$TENANTS_DIR/$name.list" "$TENANTS_DIR/$name.pages"
	forget "$name"
}

follow() {
	local file name
	for name in "${!clients[@]}"; do
		[ -e "$TENANTS_DIR/$name.toml" ] || end "$name"
	done
	for file in "$TENANTS_DIR"/*.toml; do
		name=$(basename "$file" .toml)
		[ ! -e "$file" ] || [ -n "${clients[$name]-}" ] || begin "$name"
	done
}

network
prepare_kernel
files
mkdir "$root/fleet"
echo +memory +io >"$root/fleet/cgroup.subtree_control"
say "starting the agent"
# shellcheck disable=SC2153  # given by the host
"$AGENT" run --config "$AGENT_CONFIG" &
agent=$!
while kill -0 "$agent" 2>/dev/null; do
	follow
	follow_pages
	sleep 0.5
done
wait "$agent" || say "the agent ended with status $?"
exit 1
