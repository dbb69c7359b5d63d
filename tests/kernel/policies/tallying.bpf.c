/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FIFO with folio_counted, which checks when the kernel reports the re-references that it counted.
 */
#include "test_policy.h"

#define MOST_SPINS 500
#define CLOCKS 32 /* clock reads per iteration, so that the verifier has few jumps to follow */

/* tests/kernel/guest/src/cases/counted.rs declares the same layout. */
struct tallying_state {
	u64 list;
	u64 first;
	u64 calls;
	u64 accesses;
	u64 shown;
	u64 shown_accesses; /* accesses reported before their folios were shown */
	u64 removed_accesses;
	u64 spin_ns; /* time to spend on each shown folio, which is then kept; 0: evict it */
};

struct tallying_folio {
	u64 accesses;
};

POLICY_STATE(struct tallying_state);
POLICY_FOLIO_STATE(struct tallying_folio);

static u64 accesses_of(struct folio *folio)
{
	struct tallying_folio *state = FOLIO_STATE(folio);

	return state ? state->accesses : 0;
}

CACHE_EXT_HOOK(s32, tallying_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

static void spin(void)
{
	u64 until = cache_ext_clock_ns() + STATE->spin_ns;
	u64 now = 0;

	for (u32 i = 0; i < MOST_SPINS; i++) {
#pragma unroll
		for (int clock = 0; clock < CLOCKS; clock++)
			now = cache_ext_clock_ns();
		if (now > until)
			break;
	}
}

static s64 show(struct folio *folio, void *data)
{
	cache_ext_add(&STATE->shown, 1);
	cache_ext_add(&STATE->shown_accesses, accesses_of(folio));
	if (!STATE->spin_ns)
		return CACHE_EXT_EVICT;
	spin();
	return CACHE_EXT_KEEP;
}

CACHE_EXT_HOOK(void, tallying_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	bpf_cache_ext_list_iterate(STATE->list, request, show, NULL, &opts);
}

CACHE_EXT_HOOK(void, tallying_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

CACHE_EXT_HOOK(void, tallying_folio_accessed, struct folio *folio, bool first)
{
	/* Only first accesses are expected here. The large number makes a re-reference visible. */
	cache_ext_add(&STATE->first, first ? 1 : 1 << 20);
}

CACHE_EXT_HOOK(void, tallying_folio_counted, struct folio *folio, u32 accesses)
{
	struct tallying_folio *state = FOLIO_STATE(folio);

	cache_ext_add(&STATE->calls, 1);
	cache_ext_add(&STATE->accesses, accesses);
	if (state)
		state->accesses += accesses;
}

CACHE_EXT_HOOK(void, tallying_folio_removed, struct folio *folio, bool evicted)
{
	cache_ext_add(&STATE->removed_accesses, accesses_of(folio));
}

CACHE_EXT_OPS(tallying, .init = HOOK(tallying_init), .evict_folios = HOOK(tallying_evict_folios),
	      .folio_added = HOOK(tallying_folio_added),
	      .folio_accessed = HOOK(tallying_folio_accessed),
	      .folio_removed = HOOK(tallying_folio_removed),
	      .folio_counted = HOOK(tallying_folio_counted));
