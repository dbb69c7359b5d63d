/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring of sampled accesses, the share of each cgroup in it, and the count of lost events. */
#ifndef CACHEPILOT_SAMPLER_RING_H
#define CACHEPILOT_SAMPLER_RING_H

#include "kernel_types.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "layout.h"

/*
 * A cgroup may use up to RING_SHARE times as much of the ring as is free. A single cgroup may thus
 * use four fifths, and the rest stays free for others (Choudhury and Hahne, "Dynamic Queue Length
 * Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2), 1998).
 */
#define RING_SHARE 4

/* Losses of all cgroups together. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct losses);
	__uint(max_entries, 1);
} losses SEC(".maps");

/* The agent adds an entry for each cgroup before the cgroup is tracked. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u64);
	__type(value, struct cgroup_share);
	__uint(max_entries, 4096);
} shares SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

/* Atomic, because a task that preempts this one may run another program on the same counts. */
#define ADD(counter, value) __sync_fetch_and_add(&(counter), value)

#define LOSE(cgroup, counter, value)                                                               \
	do {                                                                                       \
		u32 zero_ = 0;                                                                     \
		u64 cgroup_ = (cgroup);                                                            \
		struct losses *losses_ = bpf_map_lookup_elem(&losses, &zero_);                     \
		struct cgroup_share *share_ = bpf_map_lookup_elem(&shares, &cgroup_);              \
		if (losses_)                                                                       \
			ADD(losses_->counter, value);                                              \
		if (share_)                                                                        \
			ADD(share_->lost.counter, value);                                          \
	} while (0)

/*
 * Whether the cgroup may add an event. CPUs that see at the same time that the agent has read may
 * each reset waiting_bytes, so the cgroup may get room for a few events too many.
 */
static __always_inline bool has_room(struct cgroup_share *share)
{
	u64 read_to = bpf_ringbuf_query(&events, BPF_RB_CONS_POS);
	u64 size = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE);
	u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	if (share->read_to != read_to) {
		share->read_to = read_to;
		share->waiting_bytes = 0;
	}
	return waiting < size && share->waiting_bytes <= RING_SHARE * (size - waiting);
}

static __always_inline void report(const struct event *event)
{
	u64 cgroup = event->cgroup;
	struct cgroup_share *share = bpf_map_lookup_elem(&shares, &cgroup);
	struct event *slot = NULL;

	if (!share || has_room(share))
		slot = bpf_ringbuf_reserve(&events, sizeof(*slot), 0);
	if (!slot) {
		LOSE(cgroup, dropped_events, 1);
		return;
	}
	*slot = *event;
	bpf_ringbuf_submit(slot, BPF_RB_NO_WAKEUP);
	if (share)
		ADD(share->waiting_bytes, sizeof(*slot) + BPF_RB_HEADER_BYTES);
}

#endif
