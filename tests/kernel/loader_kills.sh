#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: the loader killed at each system call with which it changes anything, one after the
# other, and what is there afterwards. Of its calls of bpf() only the last ones do so: before them
# come those that find out what the kernel can do and load programs. Prints "COMMAND CALL NUMBER:
# policy POLICY pinned YES next STATUS", where "next" is that of using the cgroup afterwards, and
# "COMMAND CALL NUMBER: through" where there was no such call any more.
# Usage: loader_kills.sh AGENT
set -u
agent=$1
cgroup=/sys/fs/cgroup/loaded
pins=/sys/fs/bpf/cachepilot
calls="bpf mkdir unlink rmdir write"
last_calls=8

policy_of() {
	sed -n 's/^policy //p' "$cgroup/memory.cache_ext"
}

# How often "policy ..." calls $1.
count() {
	call=$1
	shift
	strace -f -e "trace=$call" "$agent" policy "$@" 2>&1 | grep -c "$call("
}

# Kills "policy COMMAND ..." at one of its calls.
kill_at() {
	call=$1 number=$2
	shift 2
	attached_or_not >/dev/null 2>&1
	strace -f -o /dev/null -e "inject=$call:signal=KILL:when=$number" \
		"$agent" policy "$@" >/dev/null 2>&1
	status=$?
	policy=$(policy_of)
	pinned=no
	[ ! -e "$pins/$(stat -c %i "$cgroup")/link" ] || pinned=yes
	usable >/dev/null 2>&1
	next=$?
	if [ "$status" -eq 0 ]; then
		echo "$1 $call $number: through"
		return 1
	fi
	echo "$1 $call $number: policy $policy pinned $pinned next $next"
}

# Kills "policy COMMAND ..." at each of its calls until it gets through.
kill_at_each() {
	for call in $calls; do
		attached_or_not >/dev/null 2>&1
		number=$(($(count "$call" "$@") - last_calls))
		[ "$number" -ge 0 ] || number=0
		while kill_at "$call" "$((number += 1))" "$@"; do :; done
	done
}

detached() {
	[ "$(policy_of)" = none ] || "$agent" policy detach --cgroup "$cgroup"
}

# What a command starts from.
attached_or_not() {
	detached
	[ "$start" = none ] || "$agent" policy attach --cgroup "$cgroup" --policy "$start"
}

# Whatever is there: a policy can be attached and detached, and no pins are left.
usable() {
	detached && "$agent" policy attach --cgroup "$cgroup" --policy lru &&
		"$agent" policy detach --cgroup "$cgroup" && [ -z "$(ls $pins)" ]
}

mkdir "$cgroup"
start=none
kill_at_each attach --cgroup "$cgroup" --policy lfu
start=fifo
kill_at_each swap --cgroup "$cgroup" --policy lfu
kill_at_each detach --cgroup "$cgroup"
