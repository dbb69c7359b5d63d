/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO whose folio_split has a length that other hooks may have, but is too long for this one. */
#include "test_policy.h"

#define ROUNDS 2000

struct long_split_state {
	u64 list;
	u64 sum;
};

POLICY_STATE(struct long_split_state);

CACHE_EXT_HOOK(s32, long_split_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, long_split_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, long_split_folio_split, struct folio *folio, struct folio *split_off)
{
	for (u64 i = 0; i < ROUNDS; i++)
		cache_ext_add(&STATE->sum, i);
}

CACHE_EXT_HOOK(void, long_split_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(long_split, .init = HOOK(long_split_init),
	      .evict_folios = HOOK(long_split_evict_folios),
	      .folio_added = HOOK(long_split_folio_added),
	      .folio_split = HOOK(long_split_folio_split));
