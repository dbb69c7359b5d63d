/* SPDX-License-Identifier: Apache-2.0 */
/* All hooks, all empty: the framework does its bookkeeping, and the kernel evicts by itself. */
#include "cache_ext.bpf.h"

CACHE_EXT_HOOK(s32, noop_init, struct mem_cgroup *memcg)
{
	return 0;
}

CACHE_EXT_HOOK(void, noop_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
}

CACHE_EXT_HOOK(void, noop_folio_added, struct folio *folio)
{
}

CACHE_EXT_HOOK(void, noop_folio_accessed, struct folio *folio, bool first)
{
}

CACHE_EXT_HOOK(void, noop_folio_removed, struct folio *folio, bool evicted)
{
}

CACHE_EXT_OPS(noop, .init = HOOK(noop_init), .evict_folios = HOOK(noop_evict_folios),
	      .folio_added = HOOK(noop_folio_added), .folio_accessed = HOOK(noop_folio_accessed),
	      .folio_removed = HOOK(noop_folio_removed));
