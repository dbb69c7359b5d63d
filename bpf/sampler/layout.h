/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the sampler and the agent agree on. The agent's side is agent/src/bpf/sampler_layout.rs,
 * whose tests compare sizes with those that the object file tells.
 */
#ifndef CACHEPILOT_SAMPLER_LAYOUT_H
#define CACHEPILOT_SAMPLER_LAYOUT_H

/* Buckets of wire::latency_bucket(). */
#define LATENCY_BUCKETS 104

/* Of one cgroup: which counts are its own, and below which hash its accesses are events. */
struct cgroup_entry {
	u64 threshold;
	u32 slot;
	u32 reserved;
};

/* Of one tenant on one CPU. */
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

/* Tenants whose counts are in one map. */
#define COUNTS_PART 16

/* What could not be seen: events without room, pages not looked at, calls not followed. */
struct losses {
	u64 dropped_events;
	u64 unsampled_pages;
	u64 untracked_calls;
};

/* Of one cgroup: what it lost, and how much of the ring it takes up. */
struct cgroup_share {
	struct losses lost;
	/* Where the agent had read to when `waiting_bytes` began anew. */
	u64 read_to;
	u64 waiting_bytes;
	/* Pages that the kernel left out of its sample and that were looked at here. */
	u64 rest_pages;
};

/* What the agent asks of a kernel that counts by itself: of which cgroup, below which hash. */
struct watch_request {
	u64 cgroup;
	u64 threshold;
};

/* Cgroups whose counts are read at once. */
#define READ_AT_ONCE 64

/* Those whose counts are wanted. */
struct counts_request {
	u64 count;
	u64 cgroups[READ_AT_ONCE];
};

/* The kernel's CACHE_EXT_WRITE and CACHE_EXT_MMAP. */
#define EVENT_WRITE 1
#define EVENT_MMAP 2
/* The page is charged to a cgroup that is not the tenant's. */
#define EVENT_ELSEWHERE 4
/* No access: the page is gone though reclaim did not take it. */
#define EVENT_REMOVAL 8

/* One access to one page: a record of docs/reference/trace_format.md, with more flags. */
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
