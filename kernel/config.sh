#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# To be sourced after kernel/source.sh: merges the configuration of a kernel from fragments and
# checks it.

# The command that runs make. The caller may replace it by one with more words.
make=(make)

# Fails if the configuration $2 does not have all settings of the fragment $1, and names the missing
# ones.
check_config() {
	local wanted=$1 got=$2 line option lost=()
	while read -r line; do
		case $line in
		"# CONFIG_"*" is not set")
			option=${line#\# }
			grep -q "^${option%% *}=" "$got" && lost+=("$line")
			;;
		CONFIG_*=n | CONFIG_*='""')
			grep "^${line%%=*}=" "$got" | grep -qvxF -- "$line" && lost+=("$line")
			;;
		CONFIG_*)
			grep -qxF -- "$line" "$got" || lost+=("$line")
			;;
		esac
	done <"$wanted"
	[ "${#lost[@]}" -eq 0 ] ||
		die "the kernel's configuration did not take: $(printf '%s; ' "${lost[@]}")see $got"
}

# configure TREE BASE FRAGMENT: writes TREE/object/.config, which is BASE (a file, or the word
# tinyconfig) overridden by the fragment. An unchanged configuration keeps its modification time.
configure() {
	local tree=$1 base=$2 wanted=$3
	local scratch=$tree/config
	rm -rf "$scratch"
	mkdir "$scratch"
	if [ "$base" = tinyconfig ]; then
		"${make[@]}" -C "$tree/source" O="$scratch" tinyconfig
	else
		cp "$base" "$scratch/.config"
	fi
	(
		cd "$scratch" || exit 1
		KCONFIG_CONFIG=$scratch/.config "$tree/source/scripts/kconfig/merge_config.sh" \
			-m -O "$scratch" "$scratch/.config" "$wanted"
		"${make[@]}" -C "$tree/source" O="$scratch" olddefconfig
	)
	check_config "$wanted" "$scratch/.config"
	refresh "$scratch/.config" "$tree/object/.config"
	rm -rf "$scratch"
}
