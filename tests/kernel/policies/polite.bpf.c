/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO of the folios of one file that proposes no busy folio. */
#include "test_policy.h"

/* tests/kernel/guest/src/cases/watchdog.rs declares the same layout. */
struct polite_state {
	u64 list;
	u64 device;
	u64 inode;
	u64 asked;
	u64 busy;
};

POLICY_STATE(struct polite_state);

CACHE_EXT_HOOK(s32, polite_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, polite_folio_added, struct folio *folio)
{
	if (is_of_file(folio, STATE->device, STATE->inode))
		bpf_cache_ext_list_add(STATE->list, folio, true);
}

static s64 evict_idle(struct folio *folio, void *data)
{
	if (!cache_ext_folio_is_busy(folio))
		return CACHE_EXT_EVICT;
	cache_ext_add(&STATE->busy, 1);
	return CACHE_EXT_KEEP;
}

CACHE_EXT_HOOK(void, polite_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	cache_ext_add(&STATE->asked, 1);
	bpf_cache_ext_list_iterate(STATE->list, request, evict_idle, NULL, &opts);
}

CACHE_EXT_OPS(polite, .init = HOOK(polite_init), .folio_added = HOOK(polite_folio_added),
	      .evict_folios = HOOK(polite_evict_folios));
