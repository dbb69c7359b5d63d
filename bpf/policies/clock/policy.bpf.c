/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CLOCK: a FIFO in which a re-referenced page goes back to the tail instead of being evicted. */
#include "cache_ext.bpf.h"

/* Maximum of the tunable max_references. It bounds the passes of one request. */
#define MAX_REFERENCES 3

struct clock_state {
	u64 pages;
};

struct clock_folio {
	u8 references;
};

POLICY_STATE(struct clock_state);
POLICY_FOLIO_STATE(struct clock_folio);

CACHE_EXT_HOOK(s32, clock_init, struct mem_cgroup *memcg)
{
	STATE->pages = bpf_cache_ext_list_create(memcg);
	return STATE->pages ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, clock_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->pages, folio, true);
}

CACHE_EXT_HOOK(void, clock_folio_counted, struct folio *folio, u32 accesses)
{
	struct clock_folio *state = FOLIO_STATE(folio);
	u32 most = TUNABLE(max_references);

	if (!state)
		return;
	accesses += state->references;
	state->references = accesses < most ? accesses : most;
}

static s64 second_chance(struct folio *folio, void *data)
{
	struct clock_folio *state = FOLIO_STATE(folio);

	if (!state || !state->references)
		return CACHE_EXT_EVICT;
	state->references--;
	return CACHE_EXT_ROTATE;
}

/*
 * Each pass takes one reference from each page, so the last pass finds a page without references.
 */
CACHE_EXT_HOOK(void, clock_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	for (int pass = 0; pass <= MAX_REFERENCES; pass++) {
		if (request->nr_proposed >= request->nr_requested)
			break;
		bpf_cache_ext_list_iterate(STATE->pages, request, second_chance, NULL, &opts);
	}
}

CACHE_EXT_OPS(clock, .init = HOOK(clock_init), .evict_folios = HOOK(clock_evict_folios),
	      .folio_added = HOOK(clock_folio_added), .folio_counted = HOOK(clock_folio_counted));
