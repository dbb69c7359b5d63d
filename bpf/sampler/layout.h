/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout of the data that the sampler and the agent exchange. The agent's side is
 * agent/src/bpf/layout.rs, whose tests compare the sizes with those in the object file.
 */
#ifndef CACHEPILOT_SAMPLER_LAYOUT_H
#define CACHEPILOT_SAMPLER_LAYOUT_H

/* Number of buckets of latency_bucket() in agent/src/latency.rs. */
#define LATENCY_BUCKETS 104

/* For one cgroup: the slot of its tenant's counts, and the largest hash of a sampled page. */
struct cgroup_entry {
	u64 threshold;
	u32 slot;
	u32 reserved;
};

/* Counts of one tenant on one CPU. */
struct tenant_counts {
	u64 accesses;
	u64 misses;
	u64 refaults;
	u64 evictions;
	u64 readahead_pages;
	u64 mmap_accesses;
	u64 write_accesses;
	u64 read_calls;
	u64 read_time_ns;
	u64 latency[LATENCY_BUCKETS];
};

/* Number of tenants whose counts are in one map. */
#define COUNTS_PART 16

/*
 * Losses: events that found no room, pages that were not looked at, calls that were not followed.
 */
struct losses {
	u64 dropped_events;
	u64 unsampled_pages;
	u64 untracked_calls;
};

/* For one cgroup: its losses, and its share of the ring. */
struct cgroup_share {
	struct losses lost;
	/* Position up to which the agent had read when `waiting_bytes` was last reset. */
	u64 read_to;
	u64 waiting_bytes;
	/* Pages that the kernel left out of its sample and that read_rest looked at. */
	u64 rest_pages;
};

/* For a kernel that counts by itself: the cgroup to watch, and the threshold of its sample. */
struct watch_request {
	u64 cgroup;
	u64 threshold;
};

/* Maximum number of cgroups whose counts are read at once. */
#define READ_AT_ONCE 64

/* The cgroups whose counts are requested. */
struct counts_request {
	u64 count;
	u64 cgroups[READ_AT_ONCE];
};

/* Equal to CACHE_EXT_WRITE and CACHE_EXT_MMAP of the kernel. */
#define EVENT_WRITE 1
#define EVENT_MMAP 2
/* The page is charged to a cgroup of another tenant or of none. */
#define EVENT_ELSEWHERE 4
/* Not an access: the page was removed from the cache, but not by reclaim. */
#define EVENT_REMOVAL 8

/* One access to one page: a record of docs/reference/trace_format.md with additional flags. */
struct event {
	u64 time_ns;
	u64 cgroup;
	u64 inode;
	u64 index;
	u32 device;
	u32 generation;
	u32 task;
	u32 flags;
};

_Static_assert(sizeof(struct event) == 48, "an event has the size of a record");

#endif
