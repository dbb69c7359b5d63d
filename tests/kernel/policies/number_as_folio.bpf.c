/* SPDX-License-Identifier: Apache-2.0 */
/* Stores a folio's address as a number and proposes it later. The verifier must reject it. */
#include "test_policy.h"

struct number_state {
	u64 list;
	u64 remembered;
};

POLICY_STATE(struct number_state);

extern void *bpf_rdonly_cast(void *obj, u32 btf_id) __ksym;

CACHE_EXT_HOOK(s32, number_as_folio_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, number_as_folio_folio_added, struct folio *folio)
{
	STATE->remembered = (u64)folio;
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, number_as_folio_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	u32 type = __builtin_btf_type_id(*(struct folio *)0, 1);
	struct folio *folio = bpf_rdonly_cast((void *)STATE->remembered, type);

	bpf_cache_ext_propose(request, folio);
}

CACHE_EXT_OPS(number_as_folio, .init = HOOK(number_as_folio_init),
	      .folio_added = HOOK(number_as_folio_folio_added),
	      .evict_folios = HOOK(number_as_folio_evict_folios));
