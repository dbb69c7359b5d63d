/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO with 16 lists; each has one in sixteen pages of a file. */
#include "test_policy.h"

#define LISTS 16 /* a power of two, so that the verifier knows the bound of an index */

struct spreading_state {
	u64 lists[LISTS];
};

POLICY_STATE(struct spreading_state);

CACHE_EXT_HOOK(s32, spreading_init, struct mem_cgroup *memcg)
{
	for (int i = 0; i < LISTS; i++) {
		STATE->lists[i] = bpf_cache_ext_list_create(memcg);
		if (!STATE->lists[i])
			return -ENOMEM;
	}
	return 0;
}

CACHE_EXT_HOOK(void, spreading_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->lists[folio_index(folio) & (LISTS - 1)], folio, true);
}

CACHE_EXT_HOOK(void, spreading_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	for (int i = 0; i < LISTS && request->nr_proposed < request->nr_requested; i++)
		evict_oldest(STATE->lists[i], request);
}

CACHE_EXT_OPS(spreading, .init = HOOK(spreading_init), .evict_folios = HOOK(spreading_evict_folios),
	      .folio_added = HOOK(spreading_folio_added));
