/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO that counts folios as large ones are split, and wrong results that its folio_split gets. */
#include "test_policy.h"

#define MARK 0x5eed

/* tests/kernel/guest/src/cases/splits.rs declares the same layout. */
struct splitting_state {
	u64 list;
	u64 added;
	u64 added_pages;
	u64 split_off;
	u64 removed;
	u64 wrong;
};

struct splitting_folio {
	u32 mark;
};

POLICY_STATE(struct splitting_state);

CACHE_EXT_HOOK(s32, splitting_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

static struct splitting_folio *state_of(struct folio *folio)
{
	return (void *)bpf_cache_ext_folio_state(folio, sizeof(struct splitting_folio));
}

CACHE_EXT_HOOK(void, splitting_folio_added, struct folio *folio)
{
	struct splitting_folio *state = state_of(folio);

	if (state)
		state->mark = MARK;
	cache_ext_add(&STATE->added, 1);
	cache_ext_add(&STATE->added_pages, cache_ext_folio_pages(folio));
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

static void expect(bool right)
{
	if (!right)
		cache_ext_add(&STATE->wrong, 1);
}

CACHE_EXT_HOOK(void, splitting_folio_split, struct folio *folio, struct folio *split_off)
{
	struct splitting_folio *state = state_of(split_off);

	cache_ext_add(&STATE->split_off, 1);
	expect(folio != split_off);
	expect(state && state->mark == MARK);
	expect(cache_ext_folio_pages(folio) == cache_ext_folio_pages(split_off));
	expect(bpf_cache_ext_page_key(folio));
	expect(bpf_cache_ext_folio_list(split_off) == STATE->list);
	expect(!bpf_cache_ext_list_move(STATE->list, split_off, true));
	expect(bpf_cache_ext_list_add(STATE->list, split_off, true));
}

CACHE_EXT_HOOK(void, splitting_folio_removed, struct folio *folio, bool evicted)
{
	cache_ext_add(&STATE->removed, 1);
}

CACHE_EXT_HOOK(void, splitting_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(splitting, .init = HOOK(splitting_init), .evict_folios = HOOK(splitting_evict_folios),
	      .folio_added = HOOK(splitting_folio_added),
	      .folio_removed = HOOK(splitting_folio_removed),
	      .folio_split = HOOK(splitting_folio_split));
