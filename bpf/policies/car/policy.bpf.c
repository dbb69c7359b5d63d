/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CAR: the lists, ghosts and target of ARC, but the lists are clocks: a hit only marks the page. */
#include "cache_ext.bpf.h"

/* The target has fractions of a page, because a step is the ratio of two lengths. */
#define TARGET_SHIFT 16

struct car_state {
	u64 once;	 /* T1 */
	u64 again;	 /* T2 */
	u64 once_ghost;	 /* B1 */
	u64 again_ghost; /* B2 */
	u64 target;	 /* p: pages wanted in T1, shifted by TARGET_SHIFT */
};

struct car_folio {
	u8 referenced;
};

/* The rest of T1 while one request is served. */
struct once_scan {
	u64 left;
	u64 target;
};

POLICY_STATE(struct car_state);
POLICY_FOLIO_STATE(struct car_folio);

CACHE_EXT_HOOK(s32, car_init, struct mem_cgroup *memcg)
{
	STATE->once = bpf_cache_ext_list_create(memcg);
	STATE->again = bpf_cache_ext_list_create(memcg);
	STATE->once_ghost = bpf_cache_ext_ghost_create(memcg, 100);
	STATE->again_ghost = bpf_cache_ext_ghost_create(memcg, 100);
	if (!STATE->once || !STATE->again || !STATE->once_ghost || !STATE->again_ghost)
		return -ENOMEM;
	return 0;
}

/* The ratio of the other ghost list's length to its own, but at least one page. */
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
 * For a page seen for the first time: bound T1 and B1 to c pages together, and all four lists to
 * 2c.
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

CACHE_EXT_HOOK(void, car_folio_added, struct folio *folio)
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

CACHE_EXT_HOOK(void, car_folio_counted, struct folio *folio, u32 accesses)
{
	struct car_folio *state = FOLIO_STATE(folio);

	if (state)
		state->referenced = 1;
}

CACHE_EXT_HOOK(void, car_folio_removed, struct folio *folio, bool evicted)
{
	bool once = bpf_cache_ext_folio_list(folio) == STATE->once;

	if (evicted)
		bpf_cache_ext_ghost_add(once ? STATE->once_ghost : STATE->again_ghost, folio, 0);
}

/* Clear the mark of the page. Returns whether it was set. */
static bool take_reference(struct folio *folio)
{
	struct car_folio *state = FOLIO_STATE(folio);

	if (!state || !state->referenced)
		return false;
	state->referenced = 0;
	return true;
}

static s64 pass_once(struct folio *folio, void *data)
{
	u64 pages = cache_ext_folio_pages(folio);
	struct once_scan *scan = data;

	if (scan->left < scan->target)
		return CACHE_EXT_STOP;
	scan->left = scan->left > pages ? scan->left - pages : 0;
	return take_reference(folio) ? CACHE_EXT_MOVE : CACHE_EXT_EVICT;
}

static s64 pass_again(struct folio *folio, void *data)
{
	return take_reference(folio) ? CACHE_EXT_ROTATE : CACHE_EXT_EVICT;
}

/*
 * Take pages from T1 while it has at least `target` pages. Marked pages move to T2, others are
 * evicted.
 */
static void evict_once(struct cache_ext_eviction_ctx *request, u64 target)
{
	struct once_scan scan = {
		.left = bpf_cache_ext_list_len(STATE->once),
		.target = target,
	};
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SIMPLE,
		.target_list = STATE->again,
	};

	if (request->nr_proposed < request->nr_requested)
		bpf_cache_ext_list_iterate(STATE->once, request, pass_once, &scan, &opts);
}

/* The first pass clears all marks, so the second one finds a page to evict. */
static void evict_again(struct cache_ext_eviction_ctx *request)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	for (int pass = 0; pass < 2; pass++) {
		if (request->nr_proposed >= request->nr_requested)
			break;
		bpf_cache_ext_list_iterate(STATE->again, request, pass_again, NULL, &opts);
	}
}

/*
 * Take from T1 while it has at least its target, or one page if the target is 0; then from T2. If
 * that is not enough, take the rest of T1, and then the pages that this moved to T2.
 */
CACHE_EXT_HOOK(void, car_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	u64 target = target_within(bpf_cache_ext_capacity(STATE->once)) >> TARGET_SHIFT;

	evict_once(request, target ? target : 1);
	evict_again(request);
	evict_once(request, 1);
	evict_again(request);
}

CACHE_EXT_OPS(car, .init = HOOK(car_init), .evict_folios = HOOK(car_evict_folios),
	      .folio_added = HOOK(car_folio_added), .folio_removed = HOOK(car_folio_removed),
	      .folio_counted = HOOK(car_folio_counted));
