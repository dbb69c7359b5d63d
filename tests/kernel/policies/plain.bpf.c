/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FIFO whose folio_accessed calls no kernel function, so the kernel runs it without a look at the
 * record.
 */
#include "test_policy.h"

/* tests/kernel/guest/src/cases/notes.rs declares the same layout. */
struct plain_state {
	u64 list;
	u64 added;
	u64 accessed;
};

POLICY_STATE(struct plain_state);

CACHE_EXT_HOOK(s32, plain_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, plain_folio_added, struct folio *folio)
{
	cache_ext_add(&STATE->added, 1);
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, plain_folio_accessed, struct folio *folio, bool first)
{
	cache_ext_add(&STATE->accessed, 1);
}

CACHE_EXT_HOOK(void, plain_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(plain, .init = HOOK(plain_init), .evict_folios = HOOK(plain_evict_folios),
	      .folio_added = HOOK(plain_folio_added), .folio_accessed = HOOK(plain_folio_accessed));
