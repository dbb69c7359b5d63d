#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions of scripts in the guest that run an agent and tenants.

# shellcheck disable=SC2034 # for those who use this
scratch=/mnt/scratch
root=/sys/fs/cgroup

say() { printf '==> %s\n' "$*"; }

# QEMU's user network: the guest is 10.0.2.15, the host's loopback is behind 10.0.2.2.
network() {
	ip link set eth0 up
	ip address add 10.0.2.15/24 dev eth0
}

# Cgroups have memory to limit and reads to count; the kernel's own lists are the older two.
prepare_kernel() {
	echo +memory +io >"$root/cgroup.subtree_control"
	echo 0 >/sys/kernel/mm/lru_gen/enabled
}

# stay SECONDS AGENT: until so many are over; fails with the agent, a process, if that ends first.
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
