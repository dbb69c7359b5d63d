/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ARC: two LRU lists, a ghost list for each, and a target for the first list that adapts. */
#include "cache_ext.bpf.h"

/* The target has fractions of a page, because a step is the ratio of two lengths. */
#define TARGET_SHIFT 16

struct arc_state {
	u64 once;	 /* T1 */
	u64 again;	 /* T2 */
	u64 once_ghost;	 /* B1 */
	u64 again_ghost; /* B2 */
	u64 target;	 /* p: pages wanted in T1, shifted by TARGET_SHIFT */
};

POLICY_STATE(struct arc_state);

CACHE_EXT_HOOK(s32, arc_init, struct mem_cgroup *memcg)
{
	STATE->once = bpf_cache_ext_list_create(memcg);
	STATE->again = bpf_cache_ext_list_create(memcg);
	STATE->once_ghost = bpf_cache_ext_ghost_create(memcg, 100);
	STATE->again_ghost = bpf_cache_ext_ghost_create(memcg, 100);
	if (!STATE->once || !STATE->again || !STATE->once_ghost || !STATE->again_ghost)
		return -ENOMEM;
	return 0;
}

/*
 * The paper's delta: the ratio of the other ghost list's length to its own, but at least one page.
 */
static u64 step(u64 own_length, u64 other_length)
{
	if (own_length >= other_length || !own_length)
		return 1ull << TARGET_SHIFT;
	return (other_length << TARGET_SHIFT) / own_length;
}

/* The target, bounded by the capacity: the cgroup may have shrunk since the target was set. */
static u64 target_within(u64 capacity)
{
	u64 target = STATE->target;

	return target < capacity << TARGET_SHIFT ? target : capacity << TARGET_SHIFT;
}

/* The page has just left the ghost list, but counts in the length of that list. */
static void adapt_to_once_ghost(void)
{
	u64 capacity = bpf_cache_ext_capacity(STATE->once) << TARGET_SHIFT;
	u64 target = STATE->target + step(bpf_cache_ext_ghost_len(STATE->once_ghost) + 1,
					  bpf_cache_ext_ghost_len(STATE->again_ghost));

	STATE->target = target < capacity ? target : capacity;
}

static void adapt_to_again_ghost(void)
{
	u64 target = target_within(bpf_cache_ext_capacity(STATE->again));
	u64 less = step(bpf_cache_ext_ghost_len(STATE->again_ghost) + 1,
			bpf_cache_ext_ghost_len(STATE->once_ghost));

	STATE->target = target > less ? target - less : 0;
}

/*
 * Case IV of the paper, a page seen for the first time: bound T1 and B1 to c pages together, and
 * all four lists to 2c.
 */
static void bound_ghosts(void)
{
	u64 capacity = bpf_cache_ext_capacity(STATE->once);
	u64 once = bpf_cache_ext_list_len(STATE->once);
	u64 room = once < capacity ? capacity - once : 0;
	u64 used;

	if (bpf_cache_ext_ghost_len(STATE->once_ghost) > room)
		bpf_cache_ext_ghost_trim(STATE->once_ghost, room);
	used = once + bpf_cache_ext_list_len(STATE->again) +
	       bpf_cache_ext_ghost_len(STATE->once_ghost);
	room = used < 2 * capacity ? 2 * capacity - used : 0;
	if (bpf_cache_ext_ghost_len(STATE->again_ghost) > room)
		bpf_cache_ext_ghost_trim(STATE->again_ghost, room);
}

CACHE_EXT_HOOK(void, arc_folio_added, struct folio *folio)
{
	if (bpf_cache_ext_ghost_take(STATE->once_ghost, folio) >= 0) {
		adapt_to_once_ghost();
		bpf_cache_ext_list_add(STATE->again, folio, true);
	} else if (bpf_cache_ext_ghost_take(STATE->again_ghost, folio) >= 0) {
		adapt_to_again_ghost();
		bpf_cache_ext_list_add(STATE->again, folio, true);
	} else {
		bpf_cache_ext_list_add(STATE->once, folio, true);
		bound_ghosts();
	}
}

CACHE_EXT_HOOK(void, arc_folio_accessed, struct folio *folio, bool first)
{
	if (!first)
		bpf_cache_ext_list_move(STATE->again, folio, true);
}

CACHE_EXT_HOOK(void, arc_folio_removed, struct folio *folio, bool evicted)
{
	bool once = bpf_cache_ext_folio_list(folio) == STATE->once;

	if (evicted)
		bpf_cache_ext_ghost_add(once ? STATE->once_ghost : STATE->again_ghost, folio, 0);
}

static s64 evict_oldest(struct folio *folio, void *data)
{
	return CACHE_EXT_EVICT;
}

static void evict_from(u64 list, u64 pages, struct cache_ext_eviction_ctx *request)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE, .max_scan = (u32)pages};

	if (pages)
		bpf_cache_ext_list_iterate(list, request, evict_oldest, NULL, &opts);
}

/*
 * REPLACE of the paper, once per candidate: take from T1 while it is longer than its target or T2
 * is empty, otherwise from T2.
 */
CACHE_EXT_HOOK(void, arc_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	u64 once = bpf_cache_ext_list_len(STATE->once);
	u64 again = bpf_cache_ext_list_len(STATE->again);
	u64 target = target_within(bpf_cache_ext_capacity(STATE->once)) >> TARGET_SHIFT;
	u64 want = request->nr_requested;
	u64 excess = once > target ? once - target : 0;

	if (excess > want)
		excess = want;
	if (want - excess > again)
		excess = want - again;
	evict_from(STATE->once, excess, request);
	evict_from(STATE->again, want - excess, request);
}

CACHE_EXT_OPS(arc, .init = HOOK(arc_init), .evict_folios = HOOK(arc_evict_folios),
	      .folio_added = HOOK(arc_folio_added), .folio_accessed = HOOK(arc_folio_accessed),
	      .folio_removed = HOOK(arc_folio_removed));
