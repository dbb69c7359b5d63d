/* SPDX-License-Identifier: Apache-2.0 */
/* FIFO that counts each event, separately for the folios of one file, and each impossible event. */
#include "test_policy.h"

#define MAX_ORDER 8192

enum event {
	ADDED,
	ADDED_PAGES,
	FIRST,
	AGAIN,
	EVICTED,
	REMOVED,
	REMOVED_PAGES,
	ADDED_TWICE,
	ACCESSED_UNKNOWN,
	REMOVED_UNKNOWN,
	EVENTS,
};

/* tests/kernel/guest/src/counts.rs declares the same layout. */
struct counting_state {
	u64 list;
	u64 device;
	u64 inode;
	u64 inits;
	u64 exits;
	u64 requests;
	u64 all[EVENTS];
	u64 watched[EVENTS];
	u64 order_len;
	u64 order[MAX_ORDER]; /* indices of the file's folios in the order of their addition */
};

struct counting_folio {
	u64 is_known;
};

POLICY_STATE(struct counting_state);
POLICY_FOLIO_STATE(struct counting_folio);

static void count(struct folio *folio, enum event event, u64 by)
{
	cache_ext_add(&STATE->all[event], by);
	if (is_of_file(folio, STATE->device, STATE->inode))
		cache_ext_add(&STATE->watched[event], by);
}

static void note_order(struct folio *folio)
{
	u64 at;

	if (!is_of_file(folio, STATE->device, STATE->inode))
		return;
	at = __sync_fetch_and_add(&STATE->order_len, 1);
	if (at < MAX_ORDER)
		STATE->order[at] = folio_index(folio);
}

CACHE_EXT_HOOK(s32, counting_init, struct mem_cgroup *memcg)
{
	cache_ext_add(&STATE->inits, 1);
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, counting_exit, struct mem_cgroup *memcg)
{
	cache_ext_add(&STATE->exits, 1);
}

CACHE_EXT_HOOK(void, counting_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	cache_ext_add(&STATE->requests, 1);
	evict_oldest(STATE->list, request);
}

CACHE_EXT_HOOK(void, counting_folio_added, struct folio *folio)
{
	struct counting_folio *state = FOLIO_STATE(folio);

	count(folio, ADDED, 1);
	count(folio, ADDED_PAGES, cache_ext_folio_pages(folio));
	if (state && state->is_known)
		count(folio, ADDED_TWICE, 1);
	if (state)
		state->is_known = 1;
	note_order(folio);
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, counting_folio_accessed, struct folio *folio, bool first)
{
	struct counting_folio *state = FOLIO_STATE(folio);

	count(folio, first ? FIRST : AGAIN, 1);
	if (!state || !state->is_known)
		count(folio, ACCESSED_UNKNOWN, 1);
}

CACHE_EXT_HOOK(void, counting_folio_removed, struct folio *folio, bool evicted)
{
	struct counting_folio *state = FOLIO_STATE(folio);

	count(folio, evicted ? EVICTED : REMOVED, 1);
	count(folio, REMOVED_PAGES, cache_ext_folio_pages(folio));
	if (!state || !state->is_known)
		count(folio, REMOVED_UNKNOWN, 1);
	if (state)
		state->is_known = 0;
}

CACHE_EXT_OPS(counting, .init = HOOK(counting_init), .exit = HOOK(counting_exit),
	      .evict_folios = HOOK(counting_evict_folios),
	      .folio_added = HOOK(counting_folio_added),
	      .folio_accessed = HOOK(counting_folio_accessed),
	      .folio_removed = HOOK(counting_folio_removed));
