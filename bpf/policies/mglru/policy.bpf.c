/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MGLRU: evicts the oldest generation first. A feedback loop protects tiers of pages by their
 * accesses.
 */
#include "cache_ext.bpf.h"

#define MAX_GENERATIONS 4
#define MIN_GENERATIONS 2
#define TIERS 4
#define MAX_ACCESSES 5 /* the count stops here; a page with this count is always protected */

/* One request looks at no more than MAX_PASSES * MAX_SCAN folios, at most MAX_SCAN at a time. */
#define MAX_PASSES 16
#define MAX_SCAN 4096

/*
 * The value of a ghost has the number of re-references in its low bits and the sequence number of
 * the oldest generation above them.
 */
#define GHOST_REFS_BITS 3
#define GHOST_SEQ_MASK ((1u << (16 - GHOST_REFS_BITS)) - 1)

struct mglru_state {
	u64 generations[MAX_GENERATIONS]; /* lists; sequence number modulo MAX_GENERATIONS */
	u64 ghosts;
	u64 min_seq;
	u64 max_seq;
	/* Pages of the oldest generation, per tier. */
	u64 evicted[TIERS];
	u64 protected[TIERS];
	u64 refaulted[TIERS];
	/* Moving averages over the earlier generations, with smoothing factor 1/2. */
	u64 avg_total[TIERS];
	u64 avg_refaulted[TIERS];
};

struct mglru_folio {
	u8 accesses;
};

/* The scan of one generation within a request; passed to the callback. */
struct scan {
	u64 seq;
	u64 proposed; /* candidates, which stay on the list until the request is served */
	u32 tier;     /* highest tier that is not protected */
};

POLICY_STATE(struct mglru_state);
POLICY_FOLIO_STATE(struct mglru_folio);

static u64 generation_of(u64 seq)
{
	return STATE->generations[seq % MAX_GENERATIONS];
}

/* order_base_2() of the number of accesses, where 0 counts as 1. */
static u32 tier_of(u32 accesses)
{
	return (accesses > 1) + (accesses > 2) + (accesses > 4);
}

static u32 accesses_of(struct folio *folio)
{
	struct mglru_folio *state = FOLIO_STATE(folio);

	return state ? state->accesses : 0;
}

CACHE_EXT_HOOK(s32, mglru_init, struct mem_cgroup *memcg)
{
	for (int i = 0; i < MAX_GENERATIONS; i++) {
		STATE->generations[i] = bpf_cache_ext_list_create(memcg);
		if (!STATE->generations[i])
			return -ENOMEM;
	}
	STATE->ghosts = bpf_cache_ext_ghost_create(memcg, 100);
	STATE->max_seq = MAX_GENERATIONS - 1;
	return STATE->ghosts ? 0 : -ENOMEM;
}

/* Only refaults of pages that were evicted from the current oldest generation count. */
static void note_refault(struct folio *folio, u32 ghost)
{
	struct mglru_folio *state = FOLIO_STATE(folio);
	u32 references = ghost & ((1u << GHOST_REFS_BITS) - 1);

	if (ghost >> GHOST_REFS_BITS != (STATE->min_seq & GHOST_SEQ_MASK))
		return;
	cache_ext_add(&STATE->refaulted[tier_of(references + 1) % TIERS],
		      cache_ext_folio_pages(folio));
	if (state && references + 2 >= MAX_ACCESSES)
		state->accesses = MAX_ACCESSES;
}

CACHE_EXT_HOOK(void, mglru_folio_added, struct folio *folio)
{
	s64 ghost = bpf_cache_ext_ghost_take(STATE->ghosts, folio);
	u64 seq = STATE->min_seq;

	if (ghost >= 0)
		note_refault(folio, (u32)ghost);
	if (seq + MIN_GENERATIONS < STATE->max_seq)
		seq++;
	bpf_cache_ext_list_add(generation_of(seq), folio, true);
}

static void count(struct folio *folio, u32 accesses)
{
	struct mglru_folio *state = FOLIO_STATE(folio);

	if (!state)
		return;
	accesses += state->accesses;
	state->accesses = accesses < MAX_ACCESSES ? accesses : MAX_ACCESSES;
}

CACHE_EXT_HOOK(void, mglru_folio_accessed, struct folio *folio, bool first)
{
	count(folio, 1);
}

CACHE_EXT_HOOK(void, mglru_folio_counted, struct folio *folio, u32 accesses)
{
	count(folio, accesses);
}

CACHE_EXT_HOOK(void, mglru_folio_removed, struct folio *folio, bool evicted)
{
	u32 accesses = accesses_of(folio);
	u32 references = accesses ? accesses - 1 : 0;
	u32 seq = STATE->min_seq & GHOST_SEQ_MASK;

	if (!evicted)
		return;
	cache_ext_add(&STATE->evicted[tier_of(accesses) % TIERS], cache_ext_folio_pages(folio));
	bpf_cache_ext_ghost_add(STATE->ghosts, folio, seq << GHOST_REFS_BITS | references);
}

/*
 * Whether the tier may be evicted: it has fewer refaults than min_refaults, or its refault ratio is
 * at most tier_gain times that of the first tier.
 */
static bool tier_is_evictable(u32 tier)
{
	u64 margin = TUNABLE(min_refaults);
	u64 refaulted = STATE->avg_refaulted[tier] + STATE->refaulted[tier];
	u64 total = STATE->avg_total[tier] + STATE->evicted[tier] + STATE->protected[tier];
	u64 first_refaulted = STATE->avg_refaulted[0] + STATE->refaulted[0];
	u64 first_total = STATE->avg_total[0] + STATE->evicted[0];

	return refaulted < margin || refaulted * (first_total + margin) <=
					     (first_refaulted + 1) * total * TUNABLE(tier_gain);
}

static u32 highest_evictable_tier(void)
{
	for (u32 tier = 1; tier < TIERS; tier++)
		if (!tier_is_evictable(tier))
			return tier - 1;
	return TIERS - 1;
}

static s64 evict_or_protect(struct folio *folio, void *data)
{
	struct scan *scan = data;
	struct mglru_folio *state = FOLIO_STATE(folio);
	u32 accesses = state ? state->accesses : 0;
	u32 tier = tier_of(accesses);

	if (!state || (tier <= scan->tier && accesses < MAX_ACCESSES))
		return CACHE_EXT_EVICT;
	cache_ext_add(&STATE->protected[tier % TIERS], cache_ext_folio_pages(folio));
	state->accesses = 0;
	return CACHE_EXT_MOVE;
}

static void scan_oldest(struct cache_ext_eviction_ctx *request, struct scan *scan)
{
	u64 seq = STATE->min_seq;
	u64 proposed = request->nr_proposed;
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SIMPLE,
		.max_scan = MAX_SCAN,
		.target_list = generation_of(seq + 1),
	};

	if (seq != scan->seq) {
		scan->seq = seq;
		scan->proposed = 0;
		scan->tier = highest_evictable_tier();
	}
	/* The two youngest generations are never evicted from. They must age first. */
	if (seq + MIN_GENERATIONS > STATE->max_seq)
		return;
	bpf_cache_ext_list_iterate(generation_of(seq), request, evict_or_protect, scan, &opts);
	scan->proposed += request->nr_proposed - proposed;
}

static void carry_over_counts(void)
{
	for (u32 tier = 0; tier < TIERS; tier++) {
		u64 total = STATE->evicted[tier] + STATE->protected[tier];

		STATE->avg_total[tier] = (STATE->avg_total[tier] + total) / 2;
		STATE->avg_refaulted[tier] =
			(STATE->avg_refaulted[tier] + STATE->refaulted[tier]) / 2;
		STATE->evicted[tier] = 0;
		STATE->protected[tier] = 0;
		STATE->refaulted[tier] = 0;
	}
}

/* Concurrent requests find the same generation empty. One of them retires it. */
static void retire_empty(const struct scan *scan)
{
	u64 seq = scan->seq;
	u64 left = scan->proposed;

	for (int i = 0; i < MAX_GENERATIONS - MIN_GENERATIONS; i++) {
		if (seq + MIN_GENERATIONS > STATE->max_seq ||
		    bpf_cache_ext_list_len(generation_of(seq)) > left)
			break;
		seq++;
		left = 0;
	}
	if (seq != scan->seq && __sync_bool_compare_and_swap(&STATE->min_seq, scan->seq, seq))
		carry_over_counts();
}

/*
 * Whether there are too few generations, or there are three and the youngest is large or the oldest
 * small.
 */
static bool needs_aging(void)
{
	u64 min_seq = STATE->min_seq;
	u64 max_seq = STATE->max_seq;
	u64 young = bpf_cache_ext_list_len(generation_of(max_seq));
	u64 old = bpf_cache_ext_list_len(generation_of(min_seq));
	u64 total = young + old + bpf_cache_ext_list_len(generation_of(min_seq + 1));

	if (min_seq + MIN_GENERATIONS != max_seq)
		return min_seq + MIN_GENERATIONS > max_seq;
	return young * MIN_GENERATIONS > total || old * (MIN_GENERATIONS + 2) < total;
}

/*
 * Another request may have aged since this one decided to. The lists of all generations must remain
 * distinct.
 */
static void age(void)
{
	u64 max_seq = STATE->max_seq;

	if (max_seq + 1 < STATE->min_seq + MAX_GENERATIONS)
		__sync_bool_compare_and_swap(&STATE->max_seq, max_seq, max_seq + 1);
}

/* Aging is delayed until a scan does not satisfy the request. */
CACHE_EXT_HOOK(void, mglru_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct scan scan = {};

	scan.seq = ~0ull;
	for (int pass = 0; pass < MAX_PASSES; pass++) {
		if (request->nr_proposed >= request->nr_requested)
			break;
		if (pass && needs_aging()) {
			age();
			continue;
		}
		scan_oldest(request, &scan);
		retire_empty(&scan);
	}
}

CACHE_EXT_OPS(mglru, .init = HOOK(mglru_init), .evict_folios = HOOK(mglru_evict_folios),
	      .folio_added = HOOK(mglru_folio_added), .folio_accessed = HOOK(mglru_folio_accessed),
	      .folio_removed = HOOK(mglru_folio_removed),
	      .folio_counted = HOOK(mglru_folio_counted));
