/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SIEVE: a FIFO whose pages keep their places while a hand moves from old pages to new ones.
 *
 * The hand is the border between two lists. One has the pages that the hand has not reached; new
 * pages join it at the tail. The other has the survivors that the hand has passed, all of them
 * older. When the hand has passed the whole first list, the survivors are the whole queue, and the
 * lists swap roles.
 */
#include "cache_ext.bpf.h"

/*
 * The first pass clears the marks ahead of the hand and the second one the rest. The third pass
 * finds no marked page.
 */
#define MAX_PASSES 3

struct sieve_state {
	u64 lists[2];
	u64 ahead; /* index of the list ahead of the hand; the other list has the survivors */
};

struct sieve_folio {
	u8 visited;
};

POLICY_STATE(struct sieve_state);
POLICY_FOLIO_STATE(struct sieve_folio);

CACHE_EXT_HOOK(s32, sieve_init, struct mem_cgroup *memcg)
{
	STATE->lists[0] = bpf_cache_ext_list_create(memcg);
	STATE->lists[1] = bpf_cache_ext_list_create(memcg);
	return STATE->lists[0] && STATE->lists[1] ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, sieve_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->lists[STATE->ahead & 1], folio, true);
}

CACHE_EXT_HOOK(void, sieve_folio_counted, struct folio *folio, u32 accesses)
{
	struct sieve_folio *state = FOLIO_STATE(folio);

	if (state)
		state->visited = 1;
}

static s64 sift(struct folio *folio, void *data)
{
	struct sieve_folio *state = FOLIO_STATE(folio);

	if (!state || !state->visited)
		return CACHE_EXT_EVICT;
	state->visited = 0;
	return CACHE_EXT_MOVE;
}

/*
 * The hand wraps as soon as it has passed the newest page, before another page joins. Concurrent
 * requests that both reach the end store the same value, so neither list is lost.
 */
static void advance_hand(struct cache_ext_eviction_ctx *request)
{
	u64 ahead = STATE->ahead & 1;
	u64 listed = bpf_cache_ext_list_len(STATE->lists[ahead]);
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SIMPLE,
		.target_list = STATE->lists[ahead ^ 1],
	};
	int seen = bpf_cache_ext_list_iterate(STATE->lists[ahead], request, sift, NULL, &opts);

	if (seen >= 0 && (u64)seen >= listed)
		STATE->ahead = ahead ^ 1;
}

CACHE_EXT_HOOK(void, sieve_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	for (int pass = 0; pass < MAX_PASSES; pass++) {
		if (request->nr_proposed >= request->nr_requested)
			break;
		advance_hand(request);
	}
}

CACHE_EXT_OPS(sieve, .init = HOOK(sieve_init), .evict_folios = HOOK(sieve_evict_folios),
	      .folio_added = HOOK(sieve_folio_added), .folio_counted = HOOK(sieve_folio_counted));
