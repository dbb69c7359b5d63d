/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * W-TinyLFU: an LRU window, then a segmented LRU, with a count-min sketch that decides on admission
 * to it.
 */
#include "cache_ext.bpf.h"

/*
 * The sketch. A word has 16 counters of 4 bits, and eight words form a block, which is one cache
 * line. A page has one block, and in it one counter in each of four rows of two words.
 */
#define BLOCK_WORDS 8
#define ROWS 4
#define ROW_BITS 5
#define COUNT_BITS 4
#define MAX_COUNT 15
#define HALVED 0x7777777777777777ull
/*
 * The sketch has at least one word per page of the capacity or of the tunable sketch_pages,
 * whichever is less, up to MAX_WORDS, or up to what the limits of the cgroup allow.
 */
#define MAX_WORDS (1u << 18)
/* Accesses per page of sized_for after which all counts are halved. */
#define SAMPLE_ACCESSES 8

struct wtinylfu_state {
	u64 window;
	u64 probation;
	u64 protected;
	u64 full;	/* not 0 after the first reclaim of the cgroup */
	u64 sized_for;	/* number of pages that the sketch is sized for */
	u64 block_mask; /* number of blocks in use, a power of two, minus 1 */
	u64 sample;	/* accesses between two halvings */
	u64 accesses;	/* accesses since the last halving */
	u32 halvings;
	u16 halved[MAX_WORDS / BLOCK_WORDS]; /* low bits of halvings when last halved */
	u64 words[MAX_WORDS];
};

POLICY_STATE_BY_PAGES(struct wtinylfu_state, words);

/* The candidates of one request and the pages that they would replace. */
struct duel {
	u32 candidates;
	u32 decided;
	u32 lost; /* one bit per candidate */
	u32 wins;
	u8 counts[CACHE_EXT_MAX_CANDIDATES];
};

/* Number of pages for which the sketch has a word each. */
static u64 sketch_pages(void)
{
	u64 capacity = bpf_cache_ext_capacity(STATE->window);
	u64 most = TUNABLE(sketch_pages);

	if (most > STATE_PAGES)
		most = STATE_PAGES;
	return capacity < most ? capacity : most;
}

static void size_sketch(u64 pages)
{
	u64 words = BLOCK_WORDS;

	for (int doublings = 0; doublings < 20 && words < pages; doublings++)
		words *= 2;
	STATE->sized_for = pages;
	STATE->block_mask = words / BLOCK_WORDS - 1;
	STATE->sample = pages * SAMPLE_ACCESSES;
}

CACHE_EXT_HOOK(s32, wtinylfu_init, struct mem_cgroup *memcg)
{
	STATE->window = bpf_cache_ext_list_create(memcg);
	STATE->probation = bpf_cache_ext_list_create(memcg);
	STATE->protected = bpf_cache_ext_list_create(memcg);
	if (!STATE->window || !STATE->probation || !STATE->protected)
		return -ENOMEM;
	size_sketch(sketch_pages());
	return 0;
}

/* A block is known by its first word. */
static u64 block_of(u64 key)
{
	return (key >> 32 & STATE->block_mask) * BLOCK_WORDS & (STATE_PAGES - 1);
}

/* The word that has the counter of the page in a row; shift_of() is its position in the word. */
static u64 word_of(u64 block, u64 key, u32 row)
{
	return block + 2 * row + (key >> (row * ROW_BITS) & 1);
}

static u32 shift_of(u64 key, u32 row)
{
	return (u32)(key >> (row * ROW_BITS + 1) & 15) * COUNT_BITS;
}

static u32 count_in(u64 block, u64 key, u32 row)
{
	return STATE->words[word_of(block, key, row)] >> shift_of(key, row) & MAX_COUNT;
}

/*
 * Halve a block when it is next used, as often as the sketch was halved since. So no hook runs
 * through the whole sketch, and all counts that are compared have been halved equally often.
 */
static void halve_block(u64 block)
{
	u16 missed = (u16)STATE->halvings - STATE->halved[block / BLOCK_WORDS];

	if (!missed)
		return;
	STATE->halved[block / BLOCK_WORDS] = (u16)STATE->halvings;
	for (u32 i = 0; i < COUNT_BITS && i < missed; i++)
		for (u32 word = 0; word < BLOCK_WORDS; word++) {
			u64 *counts = &STATE->words[block + word];

			*counts = *counts >> 1 & HALVED;
		}
}

static u32 estimate(u64 key)
{
	u64 block = block_of(key);
	u32 least = MAX_COUNT;

	halve_block(block);
	for (u32 row = 0; row < ROWS; row++) {
		u32 count = count_in(block, key, row);

		if (count < least)
			least = count;
	}
	return least;
}

static void count_access(u64 key)
{
	u64 block = block_of(key);

	halve_block(block);
	for (u32 row = 0; row < ROWS; row++)
		if (count_in(block, key, row) < MAX_COUNT)
			STATE->words[word_of(block, key, row)] += 1ull << shift_of(key, row);
	STATE->accesses++;
	if (STATE->accesses >= STATE->sample) {
		STATE->accesses = 0;
		STATE->halvings++;
	}
}

static u64 window_target(void)
{
	u64 pages = bpf_cache_ext_capacity(STATE->window) * TUNABLE(window_pct) / 100;

	return pages ? pages : 1;
}

/*
 * Until the first reclaim, pages for which the window has no room fill the main part. They start
 * protected, and pages that an earlier policy left stay so, because no access that could promote
 * them is counted. The first access moves other pages to probation.
 */
CACHE_EXT_HOOK(void, wtinylfu_folio_added, struct folio *folio)
{
	bool window = STATE->full || bpf_cache_ext_list_len(STATE->window) < window_target();

	bpf_cache_ext_list_add(window ? STATE->window : STATE->protected, folio, true);
}

CACHE_EXT_HOOK(void, wtinylfu_folio_accessed, struct folio *folio, bool first)
{
	u64 window = STATE->window;

	count_access(bpf_cache_ext_page_key(folio));
	if (first) {
		if (bpf_cache_ext_folio_list(folio) != window)
			bpf_cache_ext_list_move(STATE->probation, folio, true);
		return;
	}
	if (bpf_cache_ext_folio_list(folio) == window)
		bpf_cache_ext_list_move(window, folio, true);
	else
		bpf_cache_ext_list_move(STATE->protected, folio, true);
}

static s64 move_oldest(struct folio *folio, void *data)
{
	return CACHE_EXT_MOVE;
}

static s64 evict_oldest(struct folio *folio, void *data)
{
	return CACHE_EXT_EVICT;
}

static s64 count_candidate(struct folio *folio, void *data)
{
	struct duel *duel = data;
	u32 candidate = duel->candidates++;

	duel->counts[candidate & (CACHE_EXT_MAX_CANDIDATES - 1)] =
		(u8)estimate(bpf_cache_ext_page_key(folio));
	return CACHE_EXT_KEEP;
}

/*
 * Compare the page with the candidates in turn, until a candidate has more accesses than the page.
 */
static s64 defend(struct folio *folio, void *data)
{
	u32 count = estimate(bpf_cache_ext_page_key(folio));
	struct duel *duel = data;

	for (int i = 0; i < CACHE_EXT_MAX_CANDIDATES; i++) {
		u32 candidate = duel->decided & (CACHE_EXT_MAX_CANDIDATES - 1);

		if (duel->decided >= duel->candidates)
			return CACHE_EXT_STOP;
		duel->decided++;
		if (duel->counts[candidate] > count) {
			duel->wins++;
			return CACHE_EXT_KEEP;
		}
		duel->lost |= 1u << candidate;
	}
	return CACHE_EXT_STOP;
}

/* Called for the same candidates as count_candidate(), in the same order. */
static s64 settle(struct folio *folio, void *data)
{
	struct duel *duel = data;
	bool lost = duel->lost & 1;

	duel->lost >>= 1;
	return lost ? CACHE_EXT_EVICT : CACHE_EXT_MOVE;
}

/*
 * Show up to `pages` folios from the head of the list to fn. Folios that it moves go to probation.
 */
static __always_inline void walk(u64 list, struct cache_ext_eviction_ctx *request,
				 s64 (*fn)(struct folio *folio, void *data), void *data, u64 pages)
{
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SIMPLE,
		.max_scan = pages < CACHE_EXT_MAX_BATCH ? (u32)pages : CACHE_EXT_MAX_BATCH,
		.target_list = STATE->probation,
	};

	if (pages)
		bpf_cache_ext_list_iterate(list, request, fn, data, &opts);
}

/* Pages beyond the share of the protected segment move to probation. */
static void bound_protected(struct cache_ext_eviction_ctx *request)
{
	u64 capacity = bpf_cache_ext_capacity(STATE->protected);
	u64 window = window_target();
	u64 target = capacity > window ? (capacity - window) * TUNABLE(protected_pct) / 100 : 0;
	u64 length = bpf_cache_ext_list_len(STATE->protected);

	if (length > target)
		walk(STATE->protected, request, move_oldest, NULL, length - target);
}

/*
 * Number of pages that must leave the window so that it has its share again after as many pages
 * were added as are evicted now. A request may be smaller than the number of pages that were added,
 * so a page beyond the request waits for the next one. Only pages by which the window would still
 * exceed its share move to probation without a comparison.
 */
static u64 bound_window(struct cache_ext_eviction_ctx *request)
{
	u64 target = window_target();
	u64 length = bpf_cache_ext_list_len(STATE->window);
	u64 leaving = length + request->nr_requested;

	leaving = leaving > target ? leaving - target : 0;
	if (leaving > length)
		leaving = length;
	if (leaving > request->nr_requested)
		leaving = request->nr_requested;
	if (length - leaving > target)
		walk(STATE->window, request, move_oldest, NULL, length - leaving - target);
	return leaving;
}

/*
 * The oldest `candidates` pages of the window are evicted or move to probation. Returns the number
 * of pages that they replace.
 */
static u64 admit_candidates(struct cache_ext_eviction_ctx *request, u64 candidates)
{
	struct duel duel = {.candidates = cache_ext_zero(), .decided = cache_ext_zero()};

	walk(STATE->window, request, count_candidate, &duel, candidates);
	walk(STATE->probation, request, defend, &duel, candidates);
	walk(STATE->protected, request, defend, &duel, candidates);
	if (duel.decided < CACHE_EXT_MAX_CANDIDATES)
		duel.lost |= ~0u << duel.decided;
	walk(STATE->window, request, settle, &duel, candidates);
	return duel.wins;
}

CACHE_EXT_HOOK(void, wtinylfu_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	u64 pages = sketch_pages();
	u64 candidates, probation, beaten;

	if (pages != STATE->sized_for)
		size_sketch(pages);
	STATE->full = 1;
	bound_protected(request);
	candidates = bound_window(request);
	probation = bpf_cache_ext_list_len(STATE->probation);
	beaten = admit_candidates(request, candidates) + request->nr_requested - candidates;
	if (probation > beaten)
		probation = beaten;
	walk(STATE->probation, request, evict_oldest, NULL, probation);
	walk(STATE->protected, request, evict_oldest, NULL, beaten - probation);
	if (request->nr_proposed < request->nr_requested)
		walk(STATE->probation, request, evict_oldest, NULL, CACHE_EXT_MAX_BATCH);
	if (request->nr_proposed < request->nr_requested)
		walk(STATE->window, request, evict_oldest, NULL, CACHE_EXT_MAX_BATCH);
}

CACHE_EXT_OPS(wtinylfu, .init = HOOK(wtinylfu_init), .evict_folios = HOOK(wtinylfu_evict_folios),
	      .folio_added = HOOK(wtinylfu_folio_added),
	      .folio_accessed = HOOK(wtinylfu_folio_accessed));
