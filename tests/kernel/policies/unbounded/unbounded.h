/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO with a hook that does misdeed(), which the file that includes this defines. */
#pragma once
#include "test_policy.h"

struct unbounded_state {
	u64 list;
	u64 sum;
};

POLICY_STATE(struct unbounded_state);

#define MANY 8000000

static void misdeed(void);

CACHE_EXT_HOOK(s32, unbounded_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, unbounded_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
#ifndef WHEN_EVICTING
	misdeed();
#endif
}

CACHE_EXT_HOOK(void, unbounded_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
#ifdef WHEN_EVICTING
	misdeed();
#endif
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(unbounded, .init = HOOK(unbounded_init), .folio_added = HOOK(unbounded_folio_added),
	      .evict_folios = HOOK(unbounded_evict_folios));
