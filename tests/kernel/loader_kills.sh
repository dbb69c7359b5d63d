#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs in the guest. Kills the loader at each system call with which it changes anything, one call
# per run, and checks the state afterwards. Only the last calls of bpf() change anything: the ones
# before them probe features of the kernel and load programs. Prints "COMMAND CALL NUMBER: policy
# POLICY pinned YES next STATUS", where STATUS is the exit status of using the cgroup afterwards.
# Prints "COMMAND CALL NUMBER: through" when the command made no further call of this kind.
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

# Prints how often "policy ..." makes the system call $1.
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

# Kills "policy COMMAND ..." at each of its calls, until it runs to its end.
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

# Restores the state in which a command starts: the policy $start is attached, or none.
attached_or_not() {
	detached
	[ "$start" = none ] || "$agent" policy attach --cgroup "$cgroup" --policy "$start"
}

# Checks that, whatever the state, a policy can be attached and detached and no pins are left.
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
