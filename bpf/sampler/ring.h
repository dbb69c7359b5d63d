/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring of sampled accesses, and what found no room in it. */
#ifndef CACHEPILOT_SAMPLER_RING_H
#define CACHEPILOT_SAMPLER_RING_H

#include "kernel_types.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "layout.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct cpu_losses);
	__uint(max_entries, 1);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

/* A preempting task may be in another program on the same counts. */
#define ADD(counter, value) __sync_fetch_and_add(&(counter), value)

#define LOSE(counter, value)                                                                       \
	do {                                                                                       \
		u32 zero_ = 0;                                                                     \
		struct cpu_losses *losses_ = bpf_map_lookup_elem(&losses, &zero_);                 \
		if (losses_)                                                                       \
			ADD(losses_->counter, value);                                              \
	} while (0)

static __always_inline void report(const struct event *event)
{
	struct event *slot = bpf_ringbuf_reserve(&events, sizeof(*slot), 0);

	if (!slot) {
		LOSE(dropped_events, 1);
		return;
	}
	*slot = *event;
	bpf_ringbuf_submit(slot, BPF_RB_NO_WAKEUP);
}

#endif
