/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO with one hook that calls misdeed(), which the including file defines. */
#pragma once
#include "test_policy.h"

struct unbounded_state {
	u64 list;
	u64 sum;
};

POLICY_STATE(struct unbounded_state);

#define MANY 8000000

static void misdeed(void);

/* Hooks that a FIFO does not need. */
#if defined(WHEN_ENDING)
#define ITS_HOOK .exit = HOOK(unbounded_exit),
CACHE_EXT_HOOK(void, unbounded_exit, struct mem_cgroup *memcg)
{
	misdeed();
}
#elif defined(WHEN_REMOVING)
#define ITS_HOOK .folio_removed = HOOK(unbounded_folio_removed),
CACHE_EXT_HOOK(void, unbounded_folio_removed, struct folio *folio, bool evicted)
{
	misdeed();
}
#elif defined(WHEN_COUNTING)
#define ITS_HOOK .folio_counted = HOOK(unbounded_folio_counted),
CACHE_EXT_HOOK(void, unbounded_folio_counted, struct folio *folio, u32 accesses)
{
	misdeed();
}
#else
#define ITS_HOOK
#if !defined(WHEN_EVICTING) && !defined(WHEN_BEGINNING)
#define WHEN_ADDING
#endif
#endif

CACHE_EXT_HOOK(s32, unbounded_init, struct mem_cgroup *memcg)
{
#ifdef WHEN_BEGINNING
	misdeed();
#endif
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, unbounded_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
#ifdef WHEN_ADDING
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

CACHE_EXT_OPS(unbounded, ITS_HOOK.init = HOOK(unbounded_init),
	      .folio_added = HOOK(unbounded_folio_added),
	      .evict_folios = HOOK(unbounded_evict_folios));
