#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node in the guest: an agent, and a tenant for each file of a folder. A file that comes starts its
# tenant and one that goes ends it, as the kubelet does with static pods. Takes its orders from the
# environment:
#
#   AGENT, AGENT_CONFIG, YCSB   the agent, its configuration, the YCSB client
#   TENANTS_DIR                 the folder: NAME.toml for the tenant /fleet/NAME; what else is in it,
#                               guest_pages.sh says
#   NAMES                       all tenants. This disk has the data of each, as shared storage would
#   RECORDS                     records of each database
#
# It does not end by itself: the host has then seen the last of what it wants to see.
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

# value FILE KEY: of a line `KEY = 1` or `KEY = "a b"`.
value() {
	sed -n "s/^$2 = \"\\?\\([^\"]*\\)\"\\?\$/\\1/p" "$1"
}

begin() {
	local name=$1 file=$TENANTS_DIR/$1.toml words
	say "$name begins"
	# Its cgroup is there when its pages were read before.
	stop_reading "$name"
	mkdir -p "$root/fleet/$name"
	value "$file" limit_bytes >"$root/fleet/$name/memory.high"
	[ ! -e "$root/fleet/$name/memory.swap.max" ] || echo 0 >"$root/fleet/$name/memory.swap.max"
	words=$(value "$file" arguments)
	# The client joins its cgroup itself, once the database is open.
	# shellcheck disable=SC2086  # words
	"$YCSB" run "$scratch/$name" --records "$RECORDS" --seconds 1000000 --seed 1 \
		--cgroup "$root/fleet/$name" $words >/dev/null 2>&1 &
	clients[$name]=$!
	rm -f "$TENANTS_DIR/$name.pages" "$TENANTS_DIR/$name.warm"
}

# What it had cached is dropped: should it come back, it begins with an empty page cache, too.
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
