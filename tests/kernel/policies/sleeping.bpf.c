/* SPDX-License-Identifier: Apache-2.0 */
/* A policy with a sleepable hook. The verifier must reject it. */
#include "test_policy.h"

struct sleeping_state {
	u64 list;
};

POLICY_STATE(struct sleeping_state);

CACHE_EXT_HOOK(s32, sleeping_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

SEC("struct_ops.s/sleeping_folio_added")
void BPF_PROG(sleeping_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, sleeping_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(sleeping, .init = HOOK(sleeping_init), .folio_added = HOOK(sleeping_folio_added),
	      .evict_folios = HOOK(sleeping_evict_folios));
