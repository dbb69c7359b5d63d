#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions of guest_node.sh for the pages of a tenant that moves. The old node lists the pages that
# the tenant has in memory, and the new node reads them before the tenant starts there. Files of the
# folder, for the tenant NAME:
#
#   NAME.list    contains the most bytes as one number. If it appears while NAME runs, the node writes
#                NAME.pages with the pages of NAME's data that are in memory, and removes NAME.list
#   NAME.pages   if it exists while NAME does not run, the node creates NAME's cgroup, reads the pages,
#                which are charged to the cgroup, and renames the file to NAME.warm. It removes the file
#                if the pages cannot be read
#   NAME.warm    stays until NAME begins. If it is removed before, the node removes the cgroup

# shellcheck disable=SC2154 # from those who use this
declare -A readers

list_pages() {
	local name=$1 order=$TENANTS_DIR/$1.list part=$TENANTS_DIR/.$1.pages bytes mib
	bytes=$(cat "$order") || return 0
	# A file without a number is still being written.
	[[ $bytes =~ ^[0-9]+$ ]] || return 0
	mib=$((bytes / 1048576))
	if "$AGENT" pages list --cgroup "$root/fleet/$name" --below "$scratch/$name" \
		--most-mib "$((mib > 0 ? mib : 1))" >"$part"; then
		mv "$part" "$TENANTS_DIR/$name.pages"
	else
		rm -f "$part"
	fi
	rm -f "$order"
}

read_pages() {
	local name=$1
	say "pages of $name are read"
	mkdir -p "$root/fleet/$name"
	"$AGENT" pages read --cgroup "$root/fleet/$name" "$TENANTS_DIR/$name.pages" &
	readers[$name]=$!
}

stop_reading() {
	local reader=${readers[$1]-}
	[ -n "$reader" ] || return 0
	kill "$reader" 2>/dev/null || true
	wait "$reader" 2>/dev/null || true
	unset "readers[$1]"
}

# after_reading NAME: if the reader has ended, renames or removes NAME.pages.
after_reading() {
	local name=$1 file=$TENANTS_DIR/$1
	! kill -0 "${readers[$name]}" 2>/dev/null || return 0
	if wait "${readers[$name]}"; then
		mv "$file.pages" "$file.warm" || true
	else
		say "pages of $name cannot be read"
		rm -f "$file.pages"
	fi
	unset "readers[$name]"
}

# forget NAME: removes the tenant's cgroup, and drops its data from the page cache.
forget() {
	stop_reading "$1"
	until rmdir "$root/fleet/$1" 2>/dev/null; do sleep 0.1; done
	find "$scratch/$1" -type f -exec dd if={} iflag=nocache count=0 status=none \;
}

follow_pages() {
	local file name
	for name in $NAMES; do
		file=$TENANTS_DIR/$name
		if [ -n "${clients[$name]-}" ]; then
			[ ! -e "$file.list" ] || list_pages "$name"
		elif [ -e "$file.pages" ] && [ -n "${readers[$name]-}" ]; then
			after_reading "$name"
		elif [ -e "$file.pages" ]; then
			read_pages "$name"
		elif [ -d "$root/fleet/$name" ] && [ ! -e "$file.warm" ]; then
			say "$name does not come"
			forget "$name"
		fi
	done
}
