/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * 2Q: a FIFO for new pages, a ghost FIFO of pages evicted from it, an LRU list for pages that came
 * back.
 */
#include "cache_ext.bpf.h"

/* Kout of the paper, in percent of the capacity. */
#define GHOST_PCT 50

struct twoq_state {
	u64 incoming; /* A1in */
	u64 ghost;    /* A1out */
	u64 proven;   /* Am */
	u64 full;     /* not 0 after the first reclaim of the cgroup */
};

POLICY_STATE(struct twoq_state);

CACHE_EXT_HOOK(s32, twoq_init, struct mem_cgroup *memcg)
{
	STATE->incoming = bpf_cache_ext_list_create(memcg);
	STATE->proven = bpf_cache_ext_list_create(memcg);
	STATE->ghost = bpf_cache_ext_ghost_create(memcg, GHOST_PCT);
	return STATE->incoming && STATE->proven && STATE->ghost ? 0 : -ENOMEM;
}

/*
 * Until the first reclaim all pages start on Am. Pages that an earlier policy left stay there,
 * because no first access follows; that access moves other pages to A1in.
 */
CACHE_EXT_HOOK(void, twoq_folio_added, struct folio *folio)
{
	bool known = bpf_cache_ext_ghost_take(STATE->ghost, folio) >= 0;

	bpf_cache_ext_list_add(known || !STATE->full ? STATE->proven : STATE->incoming, folio,
			       true);
}

/* Accesses soon after the first one are correlated with it, so they do not move a page of A1in. */
CACHE_EXT_HOOK(void, twoq_folio_accessed, struct folio *folio, bool first)
{
	if (first && !STATE->full)
		bpf_cache_ext_list_move(STATE->incoming, folio, true);
	else if (!first && bpf_cache_ext_folio_list(folio) == STATE->proven)
		bpf_cache_ext_list_move(STATE->proven, folio, true);
}

CACHE_EXT_HOOK(void, twoq_folio_removed, struct folio *folio, bool evicted)
{
	if (evicted && bpf_cache_ext_folio_list(folio) == STATE->incoming)
		bpf_cache_ext_ghost_add(STATE->ghost, folio, 0);
}

static s64 evict_oldest(struct folio *folio, void *data)
{
	return CACHE_EXT_EVICT;
}

static void evict_from(u64 list, u64 pages, struct cache_ext_eviction_ctx *request)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE, .max_scan = (u32)pages};

	bpf_cache_ext_list_iterate(list, request, evict_oldest, NULL, &opts);
}

CACHE_EXT_HOOK(void, twoq_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	u64 target = bpf_cache_ext_capacity(STATE->incoming) * TUNABLE(incoming_pct) / 100;
	u64 length = bpf_cache_ext_list_len(STATE->incoming);

	STATE->full = 1;
	if (length > target)
		evict_from(STATE->incoming, length - target, request);
	if (request->nr_proposed < request->nr_requested)
		evict_from(STATE->proven, 0, request);
	if (request->nr_proposed < request->nr_requested)
		evict_from(STATE->incoming, 0, request);
}

CACHE_EXT_OPS(twoq, .init = HOOK(twoq_init), .evict_folios = HOOK(twoq_evict_folios),
	      .folio_added = HOOK(twoq_folio_added), .folio_accessed = HOOK(twoq_folio_accessed),
	      .folio_removed = HOOK(twoq_folio_removed));
