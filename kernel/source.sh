#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# To be sourced with `root` set to the top of this repository: unpacks Debian's kernel source into
# the cache and makes trees with the patch series applied.

cache=${CACHEPILOT_CACHE:-${HOME:?}/.cache/cachepilot}/kernel
package=linux-source-6.12
tarball=/usr/src/$package.tar.xz

say() { printf '==> %s\n' "$*" >&2; }

die() {
	printf '%s: error: %s\n' "kernel/${0##*/}" "$*" >&2
	exit 1
}

base_version() {
	dpkg-query -W -f='${Version}' "$package" 2>/dev/null ||
		die "$package is not installed: run scripts/setup kernel"
}

# Prints the directory of the unpacked source, and unpacks it first if necessary.
unpacked_base() {
	local base=$cache/base/$1
	if [ ! -d "$base" ]; then
		[ -r "$tarball" ] || die "$tarball: missing: reinstall $package"
		say "unpacking $tarball"
		mkdir -p "$cache/base"
		rm -rf "$base.partial"
		mkdir "$base.partial"
		tar -xf "$tarball" -C "$base.partial" --strip-components=1
		mv "$base.partial" "$base"
	fi
	printf '%s\n' "$base"
}

# Prints the files that the given patches change, one per line.
touched_files() {
	[ $# -gt 0 ] || return 0
	sed -nE 's,^(---|\+\+\+) [ab]/([^[:space:]]+).*,\2,p' "$@" | sort -u
}

# Copies a file if its content differs, and removes the target if the source is missing. It replaces
# the target instead of writing to it, because the target is a hard link to a file of the base.
refresh() {
	local from=$1 to=$2
	if [ ! -e "$from" ]; then
		rm -f "$to"
	elif ! cmp -s "$from" "$to"; then
		mkdir -p "${to%/*}"
		cp --remove-destination "$from" "$to"
	fi
}

# update_source TREE BASE PATCH...: makes TREE/source equal to BASE plus the patches. The source
# consists of hard links to the base. Only files whose content changes get a new modification time,
# so that make rebuilds only what changed.
update_source() {
	local tree=$1 base=$2 file
	shift 2
	if [ "$(cat "$tree/base" 2>/dev/null)" != "$base" ]; then
		rm -rf "$tree"
		mkdir -p "$tree/object"
		cp -al "$base" "$tree/source"
		printf '%s\n' "$base" >"$tree/base"
		: >"$tree/touched"
	fi
	local patched=$tree/patched
	rm -rf "$patched"
	mkdir "$patched"
	touched_files "$@" >"$tree/touched.new"
	while read -r file; do
		[ ! -e "$base/$file" ] || (cd "$base" && cp --parents "$file" "$patched")
	done <"$tree/touched.new"
	for file in "$@"; do
		patch -d "$patched" -p1 -s -F0 --no-backup-if-mismatch <"$file" >&2 ||
			die "$file does not apply to $package ${base##*/}"
	done
	sort -u "$tree/touched" "$tree/touched.new" >"$tree/touched.all"
	mv "$tree/touched.all" "$tree/touched"
	while read -r file; do
		if grep -qxF -- "$file" "$tree/touched.new"; then
			refresh "$patched/$file" "$tree/source/$file"
		else
			refresh "$base/$file" "$tree/source/$file"
		fi
	done <"$tree/touched"
	mv "$tree/touched.new" "$tree/touched"
	rm -rf "$patched"
}
