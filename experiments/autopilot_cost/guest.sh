#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions for the guest in this experiment. To be sourced after
# experiments/kernel_overhead/guest.sh.

AGENT_CGROUP=/sys/fs/cgroup/agent
AGENT_LOG=/run/agent.log

# start_agent CONFIG: starts the agent as a daemon in its own cgroup. It attaches in less than a
# second.
start_agent() {
	mkdir -p "$AGENT_CGROUP" /run/agent
	(
		echo "$BASHPID" >"$AGENT_CGROUP/cgroup.procs"
		exec "$AGENT" run --config "$1" </dev/null >"$AGENT_LOG" 2>&1
	) &
	AGENT_PID=$!
	sleep 3
	if ! kill -0 "$AGENT_PID"; then
		cat "$AGENT_LOG" >&2
		return 1
	fi
}

stop_agent() {
	[ -n "${AGENT_PID:-}" ] || return 0
	kill "$AGENT_PID"
	wait "$AGENT_PID" || true
	AGENT_PID=
}

# cost_of COUNT REPEAT: reads until the cgroup is full and the sampler has found its rate. Then
# prints the cost of a short run, and of one that reads COUNT more pages in each job.
cost_of() {
	local count=$1 seed=$((3 * $2))
	local brief=$((count / 8))
	settle "$count" "$seed"
	echo "[$(read_pages "$brief" $((seed + 1))),$(read_pages "$((brief + count))" $((seed + 2)))]"
}
