/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps, and what happens to an access: it is counted, its pages are hashed, and those in the sample
 * are reported.
 */
#ifndef CACHEPILOT_SAMPLER_SAMPLE_H
#define CACHEPILOT_SAMPLER_SAMPLE_H

#include "pages.h"

/* Pages [first, last] of a file that the current call asked for; mapping is 0 between calls. */
struct range {
	u64 mapping;
	u64 first;
	u64 last;
};

/*
 * The current calls of a task. There is one range per kind of call, because a read may fault on its
 * buffer.
 */
struct task_state {
	struct range read;
	struct range fault;
	struct range write;
	u64 began_ns;
	/* The page in which the last read of this open file ended, and the start of a splice. */
	s64 previous;
	s64 spliced_from;
};

/* Counts of COUNTS_PART tenants, indexed by the low bits of their slots. */
struct counts_part {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct tenant_counts));
	__uint(max_entries, COUNTS_PART);
};

/*
 * Counts take 1 KiB per tenant and CPU, so there are parts only for the slots in use. The agent
 * adds and removes parts, and sets their maximum number before loading.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, u32);
	__uint(max_entries, 1);
	__array(values, struct counts_part);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

static __always_inline struct tenant_counts *counts_of(const struct cgroup_entry *entry)
{
	u32 part = entry->slot / COUNTS_PART;
	u32 place = entry->slot % COUNTS_PART;
	void *of_part = bpf_map_lookup_elem(&counts, &part);

	return of_part ? bpf_map_lookup_elem(of_part, &place) : NULL;
}

/*
 * The state of the current task. If it has none, one is created if `create` is set. NULL if there
 * is none, or no memory.
 */
static __always_inline struct task_state *state_of_current(bool create)
{
	return bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), NULL,
				    create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

/*
 * The state of the current task for a call that begins. NULL if its cgroup is not tracked, or if
 * there is no memory for the state.
 */
static __always_inline struct task_state *state_of_call(void)
{
	u64 cgroup = bpf_get_current_cgroup_id();
	struct task_state *state;

	if (!entry_of(cgroup))
		return NULL;
	state = state_of_current(true);
	if (!state)
		LOSE(cgroup, untracked_calls, 1);
	return state;
}

/*
 * Count accesses to `pages` pages from `first` on, and report those whose hash is at most the
 * threshold of the cgroup.
 */
static __always_inline void accessed(const struct cgroup_entry *entry, struct tenant_counts *of,
				     u64 cgroup, struct address_space *mapping, u64 first,
				     u64 pages, u32 flags, u64 now_ns)
{
	u64 threshold = entry->threshold;
	struct sampling sampling = {};
	u64 seen;

	ADD(of->accesses, pages);
	if (flags & EVENT_MMAP)
		ADD(of->mmap_accesses, pages);
	if (flags & EVENT_WRITE)
		ADD(of->write_accesses, pages);
	if (!threshold)
		return;
	fill_event(&sampling.event, cgroup, mapping->host, flags, now_ns);
	sampling.mapping = (u64)mapping;
	if (pages == 1) {
		sample_page(&sampling, first, threshold);
		return;
	}
	seen = sample_pages(&sampling, first, pages, threshold);
	if (seen < pages)
		LOSE(cgroup, unsampled_pages, pages - seen);
}

/* The same as latency_bucket() in agent/src/latency.rs. */
static __always_inline u32 latency_bucket(u64 ns)
{
	u64 us = ns / 1000;
	u32 exponent = 0;
	u32 bucket;

	if (!us)
		return 0;
	if (us >> 16) {
		exponent = us >> 32 ? 32 : 16;
		us >>= exponent;
	}
	for (u32 step = 8; step; step >>= 1) {
		if (us >> step) {
			exponent += step;
			us >>= step;
		}
	}
	bucket = 4 * exponent + ((ns / 250 >> exponent) & 3);
	return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

#endif
