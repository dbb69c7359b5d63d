/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Combines the hooks of a policy and of the layer below it into one table. The hooks of the policy
 * run first, except init. The kernel's order is the same: its LRU learns of an added page after
 * cache_ext does. On removal the policy's hook must run before the layer turns the node into a
 * ghost.
 */
#ifndef CACHE_EXT_NATIVE_LAYERED_H
#define CACHE_EXT_NATIVE_LAYERED_H

#include "page_cache.h"

static __always_inline s32 cx_both_init(struct mem_cgroup *memcg)
{
	s32 error = cx_layer_table.init(memcg);

	return error || !cx_table.init ? error : cx_table.init(memcg);
}

static __always_inline void cx_both_exit(struct mem_cgroup *memcg)
{
	if (cx_table.exit)
		cx_table.exit(memcg);
	if (cx_layer_table.exit)
		cx_layer_table.exit(memcg);
}

static __always_inline void cx_layer_evict(struct cache_ext_eviction_ctx *ctx,
					   struct mem_cgroup *memcg)
{
	cx_layer_table.evict_folios(ctx, memcg);
}

static __always_inline void cx_both_added(struct folio *folio)
{
	if (cx_table.folio_added)
		cx_table.folio_added(folio);
	cx_layer_table.folio_added(folio);
}

static __always_inline void cx_both_accessed(struct folio *folio, bool first)
{
	if (!first && cx_table.folio_counted)
		cx_table.folio_counted(folio, 1);
	else if (cx_table.folio_accessed)
		cx_table.folio_accessed(folio, first);
	if (cx_layer_table.folio_accessed)
		cx_layer_table.folio_accessed(folio, first);
}

static __always_inline void cx_both_removed(struct folio *folio, bool evicted)
{
	if (cx_table.folio_removed)
		cx_table.folio_removed(folio, evicted);
	if (cx_layer_table.folio_removed)
		cx_layer_table.folio_removed(folio, evicted);
}

static __always_inline bool cx_policy_admits(u64 page_key)
{
	return !cx_table.admit_folio || cx_table.admit_folio(page_key);
}

static const struct cache_ext_ops cx_ops = {
	.init = cx_both_init,
	.exit = cx_both_exit,
	.evict_folios = cx_layer_evict,
	.folio_added = cx_both_added,
	.folio_accessed = cx_both_accessed,
	.folio_removed = cx_both_removed,
	.admit_folio = cx_policy_admits,
};

#endif
