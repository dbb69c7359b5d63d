/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FIFO that adds a ghost for each removed page. When user space sets `trim`, it trims all ghosts in
 * one hook.
 */
#include "test_policy.h"

#define TRIMS 100

/* tests/kernel/guest/src/cases/watchdog.rs declares the same layout. */
struct trimming_state {
	u64 list;
	u64 ghost;
	u64 trim;
	u64 before;
	u64 after;
};

POLICY_STATE(struct trimming_state);

CACHE_EXT_HOOK(s32, trimming_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	STATE->ghost = bpf_cache_ext_ghost_create(memcg, 100);
	return STATE->list && STATE->ghost ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, trimming_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, trimming_folio_removed, struct folio *folio, bool evicted)
{
	if (!STATE->trim) {
		bpf_cache_ext_ghost_add(STATE->ghost, folio, 0);
		return;
	}
	if (STATE->before)
		return;
	STATE->before = bpf_cache_ext_ghost_len(STATE->ghost);
	for (int i = 0; i < TRIMS; i++)
		bpf_cache_ext_ghost_trim(STATE->ghost, 0);
	STATE->after = bpf_cache_ext_ghost_len(STATE->ghost);
}

CACHE_EXT_HOOK(void, trimming_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(trimming, .init = HOOK(trimming_init), .folio_added = HOOK(trimming_folio_added),
	      .folio_removed = HOOK(trimming_folio_removed),
	      .evict_folios = HOOK(trimming_evict_folios));
