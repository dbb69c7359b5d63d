/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO whose folio_added takes a long time. */
#include "test_policy.h"

#define ROUNDS 15000

struct dawdling_state {
	u64 list;
	u64 sum;
};

POLICY_STATE(struct dawdling_state);

CACHE_EXT_HOOK(s32, dawdling_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, dawdling_folio_added, struct folio *folio)
{
	for (u64 i = 0; i < ROUNDS; i++)
		cache_ext_add(&STATE->sum, i);
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, dawdling_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(dawdling, .init = HOOK(dawdling_init), .folio_added = HOOK(dawdling_folio_added),
	      .evict_folios = HOOK(dawdling_evict_folios));
