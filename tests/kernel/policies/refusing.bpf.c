/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO that admits no page to the cache while user space has `refuse` set. */
#include "test_policy.h"

/* tests/kernel/guest/src/cases/admission.rs declares the same layout. */
struct refusing_state {
	u64 list;
	u64 refuse;
	u64 asked;
	u64 added;
};

POLICY_STATE(struct refusing_state);

CACHE_EXT_HOOK(s32, refusing_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(bool, refusing_admit_folio, u64 page_key)
{
	cache_ext_add(&STATE->asked, 1);
	return !STATE->refuse;
}

CACHE_EXT_HOOK(void, refusing_folio_added, struct folio *folio)
{
	cache_ext_add(&STATE->added, 1);
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, refusing_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(refusing, .init = HOOK(refusing_init), .admit_folio = HOOK(refusing_admit_folio),
	      .folio_added = HOOK(refusing_folio_added),
	      .evict_folios = HOOK(refusing_evict_folios));
