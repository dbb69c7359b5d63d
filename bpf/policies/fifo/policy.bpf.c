/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* FIFO: pages are evicted in the order in which they were added. */
#include "cache_ext.bpf.h"

struct fifo_state {
	u64 pages;
};

POLICY_STATE(struct fifo_state);

CACHE_EXT_HOOK(s32, fifo_init, struct mem_cgroup *memcg)
{
	STATE->pages = bpf_cache_ext_list_create(memcg);
	return STATE->pages ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, fifo_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->pages, folio, true);
}

static s64 evict_oldest(struct folio *folio, void *data)
{
	return CACHE_EXT_EVICT;
}

CACHE_EXT_HOOK(void, fifo_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	bpf_cache_ext_list_iterate(STATE->pages, request, evict_oldest, NULL, &opts);
}

CACHE_EXT_OPS(fifo, .init = HOOK(fifo_init), .evict_folios = HOOK(fifo_evict_folios),
	      .folio_added = HOOK(fifo_folio_added));
