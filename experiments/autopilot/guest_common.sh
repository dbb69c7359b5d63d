#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions for scripts that run an agent and tenants in the guest. To be sourced.

# shellcheck disable=SC2034 # for those who use this
scratch=/mnt/scratch
root=/sys/fs/cgroup

say() { printf '==> %s\n' "$*"; }

# Configures QEMU's user network: the guest has 10.0.2.15, and 10.0.2.2 leads to the host's
# loopback.
network() {
	ip link set eth0 up
	ip address add 10.0.2.15/24 dev eth0
}

# Enables limits of memory and counts of reads for cgroups, and selects the kernel's classic LRU
# with two lists instead of MGLRU.
prepare_kernel() {
	echo +memory +io >"$root/cgroup.subtree_control"
	echo 0 >/sys/kernel/mm/lru_gen/enabled
}

# stay SECONDS AGENT: waits this many seconds. If the process AGENT ends before, the script exits
# with status 1.
stay() {
	local end=$((SECONDS + $1)) agent=$2
	while ((SECONDS < end)); do
		kill -0 "$agent" 2>/dev/null || {
			wait "$agent" || say "the agent ended with status $?"
			exit 1
		}
		sleep 1
	done
}
