/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO that follows the advice of applications on their files, and counts it. */
#include "test_policy.h"

#define KINDS 5

/* tests/kernel/guest/src/cases/advice.rs declares the same layout. */
struct advised_state {
	u64 list;
	u64 told[KINDS]; /* number of folios, by enum cache_ext_advice */
};

POLICY_STATE(struct advised_state);

CACHE_EXT_HOOK(s32, advised_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, advised_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, advised_folio_advised, struct folio *folio, u32 advice)
{
	if (advice < KINDS)
		cache_ext_add(&STATE->told[advice], 1);
	bpf_cache_ext_list_move(STATE->list, folio,
				advice == CACHE_EXT_ADVICE_WILLNEED ||
					advice == CACHE_EXT_ADVICE_KEEP);
}

CACHE_EXT_HOOK(void, advised_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(advised, .init = HOOK(advised_init), .evict_folios = HOOK(advised_evict_folios),
	      .folio_added = HOOK(advised_folio_added),
	      .folio_advised = HOOK(advised_folio_advised));
