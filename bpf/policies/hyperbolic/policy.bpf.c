/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hyperbolic: of the next pages of the list, those with the lowest access rate are evicted. */
#include "cache_ext.bpf.h"

/* Fractional bits of a rate. Accesses have 32 bits, so a score does not reach the sign bit. */
#define RATE_SHIFT 30

struct hyperbolic_state {
	u64 pages;
	u32 now; /* pages added so far; a clock that stops while nothing is added */
};

struct hyperbolic_folio {
	u32 accesses;
	u32 added;
};

POLICY_STATE(struct hyperbolic_state);
POLICY_FOLIO_STATE(struct hyperbolic_folio);

CACHE_EXT_HOOK(s32, hyperbolic_init, struct mem_cgroup *memcg)
{
	STATE->pages = bpf_cache_ext_list_create(memcg);
	return STATE->pages ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, hyperbolic_folio_added, struct folio *folio)
{
	struct hyperbolic_folio *state = FOLIO_STATE(folio);

	cache_ext_add(&STATE->now, cache_ext_folio_pages(folio));
	if (state)
		state->added = STATE->now;
	bpf_cache_ext_list_add(STATE->pages, folio, true);
}

static void count(struct folio *folio, u32 accesses)
{
	struct hyperbolic_folio *state = FOLIO_STATE(folio);

	if (state)
		state->accesses += accesses < ~state->accesses ? accesses : ~state->accesses;
}

CACHE_EXT_HOOK(void, hyperbolic_folio_accessed, struct folio *folio, bool first)
{
	count(folio, 1);
}

CACHE_EXT_HOOK(void, hyperbolic_folio_counted, struct folio *folio, u32 accesses)
{
	count(folio, accesses);
}

/*
 * Accesses per page and unit of time. The difference is correct across a wrap of the clock, and a
 * page that was just added has an age of 1. The clock is read here and not once per request: a page
 * that is added during the request would otherwise be newer than the clock, and seem very old.
 */
static s64 access_rate(struct folio *folio, void *data)
{
	struct hyperbolic_folio *state = FOLIO_STATE(folio);
	u64 lived;

	if (!state)
		return 0;
	lived = ((u64)(STATE->now - state->added) + 1) * cache_ext_folio_pages(folio);
	return (s64)(((u64)state->accesses << RATE_SHIFT) / lived);
}

CACHE_EXT_HOOK(void, hyperbolic_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SCORE,
		.max_scan = cache_ext_scan_pages(STATE->pages, request->nr_requested,
						 TUNABLE(pages_per_candidate)),
	};

	bpf_cache_ext_list_iterate(STATE->pages, request, access_rate, NULL, &opts);
}

CACHE_EXT_OPS(hyperbolic, .init = HOOK(hyperbolic_init),
	      .evict_folios = HOOK(hyperbolic_evict_folios),
	      .folio_added = HOOK(hyperbolic_folio_added),
	      .folio_accessed = HOOK(hyperbolic_folio_accessed),
	      .folio_counted = HOOK(hyperbolic_folio_counted));
