/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO that counts, at its first request, the folios without an access. */
#include "test_policy.h"

/* tests/kernel/guest/src/cases/unused.rs declares the same layout. */
struct sparing_state {
	u64 list;
	u64 looked_at;
	u64 unused;
};

POLICY_STATE(struct sparing_state);

CACHE_EXT_HOOK(s32, sparing_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

static s64 look_at(struct folio *folio, void *data)
{
	STATE->looked_at++;
	if (cache_ext_folio_is_unused(folio))
		STATE->unused++;
	return CACHE_EXT_KEEP;
}

CACHE_EXT_HOOK(void, sparing_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	if (!STATE->looked_at)
		bpf_cache_ext_list_iterate(STATE->list, request, look_at, NULL, &opts);
	evict_oldest(STATE->list, request);
}

CACHE_EXT_HOOK(void, sparing_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_OPS(sparing, .init = HOOK(sparing_init), .evict_folios = HOOK(sparing_evict_folios),
	      .folio_added = HOOK(sparing_folio_added));
