/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LFU by batch scoring: of the next pages of the list, those with the fewest accesses are evicted.
 */
#include "cache_ext.bpf.h"

struct lfu_state {
	u64 pages;
};

struct lfu_folio {
	u32 accesses;
};

POLICY_STATE(struct lfu_state);
POLICY_FOLIO_STATE(struct lfu_folio);

CACHE_EXT_HOOK(s32, lfu_init, struct mem_cgroup *memcg)
{
	STATE->pages = bpf_cache_ext_list_create(memcg);
	return STATE->pages ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, lfu_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->pages, folio, true);
}

static void count(struct folio *folio, u32 accesses)
{
	struct lfu_folio *state = FOLIO_STATE(folio);

	if (state)
		state->accesses += accesses < ~state->accesses ? accesses : ~state->accesses;
}

CACHE_EXT_HOOK(void, lfu_folio_accessed, struct folio *folio, bool first)
{
	count(folio, 1);
}

CACHE_EXT_HOOK(void, lfu_folio_counted, struct folio *folio, u32 accesses)
{
	count(folio, accesses);
}

static s64 frequency(struct folio *folio, void *data)
{
	struct lfu_folio *state = FOLIO_STATE(folio);

	return state ? state->accesses : 0;
}

CACHE_EXT_HOOK(void, lfu_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SCORE,
		.max_scan = cache_ext_scan_pages(STATE->pages, request->nr_requested,
						 TUNABLE(pages_per_candidate)),
	};

	bpf_cache_ext_list_iterate(STATE->pages, request, frequency, NULL, &opts);
}

CACHE_EXT_OPS(lfu, .init = HOOK(lfu_init), .evict_folios = HOOK(lfu_evict_folios),
	      .folio_added = HOOK(lfu_folio_added), .folio_accessed = HOOK(lfu_folio_accessed),
	      .folio_counted = HOOK(lfu_folio_counted));
