/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The simulated page cache of one policy instance. Nodes are elements of one array and are linked
 * by 32-bit numbers. One index finds resident pages and ghosts alike. A page that is evicted into a
 * ghost list keeps its node and its index entry, so its return costs no second lookup.
 */
#ifndef CACHE_EXT_NATIVE_PAGE_CACHE_H
#define CACHE_EXT_NATIVE_PAGE_CACHE_H

#include "index.h"
#include "policy_manifest.h"
#include "types.h"

/* List ids are 1 .. CX_LISTS - 1, ghost list ids are CX_LISTS .. CX_ANCHORS - 1. */
#define CX_LISTS 32
#define CX_ANCHORS 40
#define CX_IS_GHOST(list) ((list) >= CX_LISTS)

#include "node_state.h"

#define CX_PROPOSED 1 /* candidate of the current request, or a ghost that is being added */
#define CX_INDEXED 2  /* in the index: resident, a ghost, or changing between the two */
#define CX_UNUSED 4   /* read ahead and not accessed since */
#define CX_FRESH 8    /* added on demand, and its first access is still to come */

struct folio {
	u64 key;
	u32 prev;
	u32 next;
	u8 list; /* anchor of its list, 0 for none */
	u8 flags;
#if CX_NODE_STATE_BYTES > 0 && CX_NODE_STATE_BYTES <= 2
	u8 state[2] __attribute__((aligned(2)));
#elif CX_NODE_STATE_BYTES > 2
	u8 state[CX_NODE_STATE_BYTES] __attribute__((aligned(4)));
#endif
} __attribute__((packed, aligned(4)));

struct mem_cgroup;

struct cache_ext_eviction_ctx {
	u64 nr_requested;
	u64 nr_proposed;
	u32 nodes[CACHE_EXT_MAX_CANDIDATES];
};

struct cache_ext_ops {
	s32 (*init)(struct mem_cgroup *memcg);
	void (*exit)(struct mem_cgroup *memcg);
	void (*evict_folios)(struct cache_ext_eviction_ctx *ctx, struct mem_cgroup *memcg);
	void (*folio_added)(struct folio *folio);
	void (*folio_accessed)(struct folio *folio, bool first);
	void (*folio_removed)(struct folio *folio, bool evicted);
	bool (*admit_folio)(u64 page_key);
	void (*folio_counted)(struct folio *folio, u32 accesses);
	void (*folio_advised)(struct folio *folio,
			      u32 advice); /* never called: traces have no advice */
	void (*folio_split)(struct folio *folio,
			    struct folio *split_off); /* never called: folios are pages */
	const char *name;
};

struct cx_stats {
	u64 requests;
	u64 misses;
	u64 evictions;
	u64 refused; /* misses that admit_folio refused to cache */
	u64 proposed;
	u64 rejected;  /* candidates that were in use, see refused_per_million */
	u64 fallbacks; /* pages that the simulated kernel chose because reclaim freed none */
	u64 unlisted;  /* folios that folio_added put on no list */
	u64 adopted;   /* pages adopted from another instance */
	u64 ahead;     /* pages added by readahead */
	u64 resident;
	u64 ghosts;
	u64 bytes;	 /* nodes, index and instance */
	u64 state_bytes; /* part of bytes: the policy's state */
};

/* The Rust code declares the same layout. */
struct cx_eviction {
	u64 key;
	u64 request; /* requests served before the eviction */
};

struct cx_sim {
	struct folio *nodes; /* 0 .. CX_ANCHORS - 1 are the anchors of the lists */
	struct cx_index index;
	u64 capacity;
	u64 resident;
	u64 node_count; /* allocated nodes, including anchors */
	u32 free_head;	/* free nodes, chained by next; 0: none */
	u32 fresh;	/* first node that was never used */
	u32 batch;
	u32 nr_lists;
	u32 nr_ghosts;
	u32 ghost_pct[CX_ANCHORS - CX_LISTS];
	u64 ghost_capacity[CX_ANCHORS - CX_LISTS];
	u64 len[CX_ANCHORS];
	u64 random;
	u64 now;		 /* requests served; the clock if the trace has no times */
	u64 column_start;	 /* value of now at the first element of the columns */
	const u32 *tasks;	 /* column of the current run, or NULL */
	const u64 *times_ns;	 /* likewise */
	u64 last_ns;		 /* time of the last request of the previous run */
	u32 request_task;	 /* task of the request that is served in steps */
	u32 refused_per_million; /* chance that a candidate is in use and refused */
	u64 refusal_random;
	u32 incoming_ghost; /* ghost list of the folio that is being added, 0 for none */
	u32 incoming_value;
	int error;
	struct cx_eviction *eviction_log; /* NULL: evictions are not logged */
	u64 log_capacity;
	u64 logged; /* entries since they were last taken; those beyond log_capacity are lost */
	struct cx_stats stats;
	struct policy_tunables cx_tunables;
#ifdef CX_LAYERED
	struct cx_layer_tunables cx_layer_tunables;
#endif
	u64 state[]; /* POLICY_STATE, after that of a layer below */
};

/*
 * The instance that runs on this thread. Its address is never taken, so the compiler can keep the
 * pointer in a register through an inlined simulation loop.
 */
static _Thread_local struct cx_sim *cx_self;

static __always_inline u32 cx_number(const struct folio *folio)
{
	return (u32)(folio - cx_self->nodes);
}

/*
 * Number of nodes to allocate at first. Policies with several ghost lists bound the sum of their
 * lengths more tightly than the length of each list, so room for the longest list is usually
 * enough.
 */
static inline u64 cx_first_nodes(const struct cx_sim *sim)
{
	u64 longest = 0;

	for (u32 i = 0; i < sim->nr_ghosts; i++)
		if (sim->ghost_capacity[i] > longest)
			longest = sim->ghost_capacity[i];
	return CX_ANCHORS + sim->capacity + 1 + longest;
}

/* Number of nodes needed if all ghost lists are full. */
static inline u64 cx_most_nodes(const struct cx_sim *sim)
{
	u64 nodes = CX_ANCHORS + sim->capacity + 1;

	for (u32 i = 0; i < sim->nr_ghosts; i++)
		nodes += sim->ghost_capacity[i];
	return nodes;
}

/* Number of homes for a load of 11/20, which is 7.3 bytes of index per node. */
static inline u64 cx_homes_for(u64 nodes)
{
	return nodes * 20 / 11 + 1;
}

#include "api.h"
#include "lists.h"
#include "ghosts.h"

#endif
