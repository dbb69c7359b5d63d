/* SPDX-License-Identifier: Apache-2.0 */
/* Iterates an empty list very often in each request, and proposes nothing. */
#include "test_policy.h"

#define SEARCHES 4096

struct searching_state {
	u64 list;
	u64 empty;
};

POLICY_STATE(struct searching_state);

CACHE_EXT_HOOK(s32, searching_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	STATE->empty = bpf_cache_ext_list_create(memcg);
	return STATE->empty ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, searching_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, searching_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	for (u32 i = 0; i < SEARCHES; i++)
		evict_oldest(STATE->empty, request);
}

CACHE_EXT_OPS(searching, .init = HOOK(searching_init), .folio_added = HOOK(searching_folio_added),
	      .evict_folios = HOOK(searching_evict_folios));
