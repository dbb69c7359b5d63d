/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps, and what is done with an access once it is known: counted, hashed, perhaps reported. */
#ifndef CACHEPILOT_SAMPLER_SAMPLE_H
#define CACHEPILOT_SAMPLER_SAMPLE_H

#include "ring.h"

#define PAGE_SHIFT 12
/* Most pages of one call that are looked at for sampling: 4 MiB. */
#define MAX_SAMPLED_PAGES 1024

/* Pages [first, last] of a file that a call in progress asked for; mapping is 0 between calls. */
struct range {
	u64 mapping;
	u64 first;
	u64 last;
};

/* What a task is doing. A read may fault on its buffer, hence one range for each kind. */
struct task_state {
	struct range read;
	struct range fault;
	struct range write;
	u64 began_ns;
	/* The page with which the last read of this open file ended, and where a splice began. */
	s64 previous;
	s64 spliced_from;
};

/* The agent puts every cgroup of a tenant here, and sizes this and `counts` before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u64);
	__type(value, struct cgroup_entry);
	__uint(max_entries, 4096);
} cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct tenant_counts);
	__uint(max_entries, 1024);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

static __always_inline struct cgroup_entry *entry_of(u64 cgroup)
{
	return bpf_map_lookup_elem(&cgroups, &cgroup);
}

static __always_inline struct tenant_counts *counts_of(const struct cgroup_entry *entry)
{
	u32 slot = entry->slot;

	return bpf_map_lookup_elem(&counts, &slot);
}

/* The state of the current task; made when `create` is set and there is none. */
static __always_inline struct task_state *state_of_current(bool create)
{
	return bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), NULL,
				    create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

/* models::hash::sample_hash(), where `file` is the part of the inode and its generation. */
static __always_inline u64 sample_hash(u64 file, u64 index)
{
	u64 x = index + file;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
}

/*
 * Reports an access to a page whose hash is up to the threshold. A global function, which the
 * verifier looks at once: it follows the loop below page by page, and when this was a part of it,
 * that of 6.1 did not come to an end within minutes on an emulated CPU.
 */
__attribute__((noinline)) int sample_page(struct event *event, u64 file, u64 index, u64 threshold)
{
	if (!event)
		return 0;
	if (sample_hash(file, index) > threshold)
		return 0;
	event->index = index;
	report(event);
	return 0;
}

/*
 * Counts accesses to `pages` pages from `first` on, and reports those whose hash is up to the
 * threshold of the cgroup.
 */
static __always_inline void accessed(const struct cgroup_entry *entry, struct tenant_counts *of,
				     u64 cgroup, const struct inode *host, u64 first, u64 pages,
				     u32 flags, u64 now_ns)
{
	u64 threshold = entry->threshold;
	struct event event = {};
	u64 file;

	ADD(of->accesses, pages);
	if (flags & EVENT_MMAP)
		ADD(of->mmap_accesses, pages);
	if (flags & EVENT_WRITE)
		ADD(of->write_accesses, pages);
	if (!threshold)
		return;
	event.time_ns = now_ns;
	event.cgroup = cgroup;
	event.inode = host->i_ino;
	event.device = host->i_sb->s_dev;
	event.generation = host->i_generation;
	event.task = (u32)bpf_get_current_pid_tgid();
	event.flags = flags;
	file = (event.inode ^ event.generation) << 32;
	for (u32 i = 0; i < MAX_SAMPLED_PAGES && i < pages; i++)
		sample_page(&event, file, first + i, threshold);
	if (pages > MAX_SAMPLED_PAGES)
		LOSE(unsampled_pages, pages - MAX_SAMPLED_PAGES);
}

/* wire::latency_bucket(). */
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
