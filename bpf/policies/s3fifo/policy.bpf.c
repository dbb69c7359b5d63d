/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* S3-FIFO: a small, a main and a ghost queue. Access counts stop at 3. */
#include "cache_ext.bpf.h"

#define MAX_ACCESSES 3
#define GHOST_PCT 90

struct s3fifo_state {
	u64 small;
	u64 main;
	u64 ghost;
	u64 full; /* not 0 after the first reclaim of the cgroup */
};

struct s3fifo_folio {
	unsigned char accesses;
};

/* The rest of the small queue while one request is served. */
struct small_scan {
	u64 left;
	u64 target;
	u64 in_turn; /* the last folio moved to the main queue: look at one more */
};

POLICY_STATE(struct s3fifo_state);
POLICY_FOLIO_STATE(struct s3fifo_folio);

CACHE_EXT_HOOK(s32, s3fifo_init, struct mem_cgroup *memcg)
{
	STATE->small = bpf_cache_ext_list_create(memcg);
	STATE->main = bpf_cache_ext_list_create(memcg);
	STATE->ghost = bpf_cache_ext_ghost_create(memcg, GHOST_PCT);
	return STATE->small && STATE->main && STATE->ghost ? 0 : -ENOMEM;
}

static u64 small_target(void)
{
	u64 pages = bpf_cache_ext_capacity(STATE->small) * TUNABLE(small_pct) / 100;

	return pages ? pages : 1;
}

/*
 * Whether the page goes to the main queue. Before the first reclaim, pages for which the small
 * queue has no room fill the main queue.
 */
static bool belongs_to_main(struct folio *folio)
{
	if (bpf_cache_ext_ghost_take(STATE->ghost, folio) >= 0)
		return true;
	return !STATE->full && bpf_cache_ext_list_len(STATE->small) >= small_target();
}

CACHE_EXT_HOOK(void, s3fifo_folio_added, struct folio *folio)
{
	u64 queue = belongs_to_main(folio) ? STATE->main : STATE->small;

	bpf_cache_ext_list_add(queue, folio, true);
}

CACHE_EXT_HOOK(void, s3fifo_folio_counted, struct folio *folio, u32 accesses)
{
	struct s3fifo_folio *state = FOLIO_STATE(folio);

	if (!state)
		return;
	accesses += state->accesses;
	state->accesses = accesses < MAX_ACCESSES ? accesses : MAX_ACCESSES;
}

/*
 * Advice to keep a page moves it to the main queue, with a full count. Other advice, except
 * WILLNEED, makes it the next page of the small queue to be evicted.
 */
CACHE_EXT_HOOK(void, s3fifo_folio_advised, struct folio *folio, u32 advice)
{
	bool stays = advice == CACHE_EXT_ADVICE_KEEP;
	struct s3fifo_folio *state = FOLIO_STATE(folio);

	if (!state || advice == CACHE_EXT_ADVICE_WILLNEED)
		return;
	state->accesses = stays ? MAX_ACCESSES : 0;
	bpf_cache_ext_list_move(stays ? STATE->main : STATE->small, folio, stays);
}

CACHE_EXT_HOOK(void, s3fifo_folio_removed, struct folio *folio, bool evicted)
{
	if (evicted && bpf_cache_ext_folio_list(folio) == STATE->small)
		bpf_cache_ext_ghost_add(STATE->ghost, folio, 0);
}

/*
 * The choice between the queues is made for each candidate, so a batch does not drain the small
 * queue.
 */
static s64 filter_small(struct folio *folio, void *data)
{
	struct s3fifo_folio *state = FOLIO_STATE(folio);
	struct small_scan *scan = data;

	if (!scan->in_turn && scan->left < scan->target)
		return CACHE_EXT_STOP;
	scan->left--;
	scan->in_turn = state && state->accesses >= TUNABLE(promote_accesses);
	if (!scan->in_turn)
		return CACHE_EXT_EVICT;
	state->accesses = 0;
	return CACHE_EXT_MOVE;
}

static s64 reinsert_main(struct folio *folio, void *data)
{
	struct s3fifo_folio *state = FOLIO_STATE(folio);

	if (!state || !state->accesses)
		return CACHE_EXT_EVICT;
	state->accesses--;
	return CACHE_EXT_ROTATE;
}

static void evict_small(struct cache_ext_eviction_ctx *request, u64 target)
{
	struct small_scan scan = {
		.left = bpf_cache_ext_list_len(STATE->small),
		.target = target,
	};
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SIMPLE,
		.target_list = STATE->main,
	};

	bpf_cache_ext_list_iterate(STATE->small, request, filter_small, &scan, &opts);
}

/* Counts are at most MAX_ACCESSES, so after that many passes one more finds a page to evict. */
static void evict_main(struct cache_ext_eviction_ctx *request)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	for (int pass = 0; pass <= MAX_ACCESSES; pass++)
		bpf_cache_ext_list_iterate(STATE->main, request, reinsert_main, NULL, &opts);
}

CACHE_EXT_HOOK(void, s3fifo_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	STATE->full = 1;
	evict_small(request, small_target());
	if (request->nr_proposed < request->nr_requested)
		evict_main(request);
	if (request->nr_proposed < request->nr_requested)
		evict_small(request, 0);
}

CACHE_EXT_OPS(s3fifo, .init = HOOK(s3fifo_init), .evict_folios = HOOK(s3fifo_evict_folios),
	      .folio_added = HOOK(s3fifo_folio_added), .folio_removed = HOOK(s3fifo_folio_removed),
	      .folio_counted = HOOK(s3fifo_folio_counted),
	      .folio_advised = HOOK(s3fifo_folio_advised));
