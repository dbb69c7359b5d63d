/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LIRS: pages of low inter-reference recency (LIR) stay, all others (HIR) pass through a queue.
 *
 * The stack S of the paper has all pages, resident or not, whose last access is later than that of
 * the LIR page at its bottom. Here a page is on one list only, and S is not a list. Each page and
 * each ghost stores the time of its last access, which tells whether it is in S.
 */
#include "cache_ext.bpf.h"

#define GHOST_PCT 95
/* Times are compared modulo 2^31. LIR pages that are idle for longer than MAX_IDLE become HIR. */
#define TIME_MASK ((1u << 31) - 1)
#define MAX_IDLE (1u << 29)
/* The queue shrinks by 1 / LEFT_SHARE of the pages that a request leaves in it. */
#define LEFT_SHARE 16

struct lirs_state {
	u64 lir;    /* LIR pages in the order of the last access */
	u64 queue;  /* Q: resident HIR pages, in the order of eviction */
	u64 ghost;  /* HIR pages that were evicted while in S */
	u64 spare;  /* pages of Q beyond its share */
	u64 room;   /* capacity that note_room() tracks; 0 before the first request */
	u32 clock;  /* accesses */
	u32 bottom; /* last access of the LIR page at the bottom of S */
};

struct lirs_folio {
	u32 last : 31;
	u32 went_round : 1; /* has gone round the queue unused */
};

struct prune {
	u64 excess;
	u32 now;
	u32 bottom;
};

POLICY_STATE(struct lirs_state);
POLICY_FOLIO_STATE(struct lirs_folio);

CACHE_EXT_HOOK(s32, lirs_init, struct mem_cgroup *memcg)
{
	STATE->lir = bpf_cache_ext_list_create(memcg);
	STATE->queue = bpf_cache_ext_list_create(memcg);
	STATE->ghost = bpf_cache_ext_ghost_create(memcg, GHOST_PCT);
	return STATE->lir && STATE->queue && STATE->ghost ? 0 : -ENOMEM;
}

static bool in_stack(u32 last)
{
	return (s32)((last - STATE->bottom) << 1) > 0;
}

static u64 queue_share(u64 capacity)
{
	u64 share = capacity * TUNABLE(queue_pct) / 100;

	return share ? share : 1;
}

/* The queue has at most half of the capacity in addition to its share. */
static u64 bounded_spare(u64 spare, u64 capacity)
{
	return spare < capacity / 2 ? spare : capacity / 2;
}

/* Number of pages that may be LIR: the capacity without the queue. */
static u64 lir_target(void)
{
	u64 capacity = bpf_cache_ext_capacity(STATE->lir);
	u64 queue;

	if (STATE->room && STATE->room < capacity)
		capacity = STATE->room;
	/* The spare was bounded by the capacity at the time, which may have been larger. */
	queue = queue_share(capacity) + bounded_spare(STATE->spare, capacity);
	return queue < capacity ? capacity - queue : 0;
}

static void touch(struct folio *folio)
{
	struct lirs_folio *state = FOLIO_STATE(folio);

	cache_ext_add(&STATE->clock, 1);
	if (state)
		state->last = STATE->clock;
}

CACHE_EXT_HOOK(void, lirs_folio_added, struct folio *folio)
{
	s64 last = bpf_cache_ext_ghost_take(STATE->ghost, folio);
	bool lir = last >= 0 && in_stack((u32)last);

	touch(folio);
	bpf_cache_ext_list_add(lir ? STATE->lir : STATE->queue, folio, true);
}

CACHE_EXT_HOOK(void, lirs_folio_accessed, struct folio *folio, bool first)
{
	struct lirs_folio *state = FOLIO_STATE(folio);
	u64 list = STATE->lir;

	/*
	 * The first pages that are read become LIR. A page that an earlier policy left does not,
	 * unless it is read: as LIR it would stay for ever, because only a page of S that is read
	 * again takes its place.
	 */
	if (first) {
		if (bpf_cache_ext_list_len(list) < lir_target())
			bpf_cache_ext_list_move(list, folio, true);
		return;
	}
	if (bpf_cache_ext_folio_list(folio) != list && (!state || !in_stack(state->last)))
		list = STATE->queue;
	touch(folio);
	bpf_cache_ext_list_move(list, folio, true);
}

CACHE_EXT_HOOK(void, lirs_folio_removed, struct folio *folio, bool evicted)
{
	struct lirs_folio *state = FOLIO_STATE(folio);

	if (evicted && state && bpf_cache_ext_folio_list(folio) == STATE->queue &&
	    in_stack(state->last))
		bpf_cache_ext_ghost_add(STATE->ghost, folio, state->last);
}

/*
 * LIR pages beyond their share become HIR. The page after them is the bottom of S. The policy does
 * not see the accesses to a mapped page, so a mapped page counts as accessed when it is looked at
 * here.
 */
static s64 prune_stack(struct folio *folio, void *data)
{
	struct lirs_folio *state = FOLIO_STATE(folio);
	struct prune *prune = data;
	u32 last = state ? state->last : prune->now;

	if (prune->excess && cache_ext_folio_is_mapped(folio)) {
		touch(folio);
		return CACHE_EXT_ROTATE;
	}
	if (prune->excess) {
		prune->excess--;
		return CACHE_EXT_MOVE;
	}
	if (((prune->now - last) & TIME_MASK) > MAX_IDLE)
		return CACHE_EXT_MOVE;
	prune->bottom = last;
	return CACHE_EXT_STOP;
}

/*
 * The queue is short, so its pages may still be under I/O or wait for their first use. A page that
 * was read ahead and not used goes round the queue once and no more, because some of these pages
 * are never used, for example those around the pages of a program that faults touch. Being looked
 * at here counts as an access to a mapped page.
 */
static s64 keep_in_queue(struct folio *folio)
{
	struct lirs_folio *state = FOLIO_STATE(folio);
	bool lir;

	if (cache_ext_folio_is_busy(folio))
		return CACHE_EXT_KEEP;
	if (cache_ext_folio_is_mapped(folio)) {
		lir = state && in_stack(state->last);
		touch(folio);
		return lir ? CACHE_EXT_MOVE : CACHE_EXT_ROTATE;
	}
	if (!state || state->went_round || !cache_ext_folio_is_unused(folio))
		return CACHE_EXT_EVICT;
	state->went_round = 1;
	return CACHE_EXT_ROTATE;
}

static s64 evict_from_queue(struct folio *folio, void *kept)
{
	s64 verdict = keep_in_queue(folio);

	if (verdict != CACHE_EXT_EVICT)
		*(u64 *)kept += cache_ext_folio_pages(folio);
	return verdict;
}

static s64 evict_lir(struct folio *folio, void *data)
{
	return cache_ext_folio_is_busy(folio) ? CACHE_EXT_KEEP : CACHE_EXT_EVICT;
}

static void grow_spare(u64 pages)
{
	u64 capacity = bpf_cache_ext_capacity(STATE->lir);

	STATE->spare = bounded_spare(STATE->spare + pages, capacity);
}

/* Grow the queue so that it has all candidates of a request, including the first request. */
static void make_spare(u64 requested)
{
	u64 has = queue_share(bpf_cache_ext_capacity(STATE->lir)) + STATE->spare;

	if (has < requested)
		grow_spare(requested - has);
}

/*
 * Requests come in a row, and some pages of the queue cannot be evicted. Missing candidates would
 * be LIR pages. Their places would go to other pages that then become LIR, and in a loop each of
 * those would be evicted just before it is read. So the queue grows by the number of missing
 * candidates, and shrinks by a part of what a request leaves over.
 */
static void note_spare(u64 missing, u64 left)
{
	u64 spare = STATE->spare;

	left /= LEFT_SHARE;
	if (missing)
		grow_spare(missing);
	else
		STATE->spare = spare > left ? spare - left : 0;
}

/*
 * The capacity of a cgroup changes with the pages that CPUs charge in advance and with the other
 * memory of its processes. If LIR pages were added with each rise, each fall would evict as many,
 * the oldest first. So `room` follows a fall at once and a rise slowly.
 */
static void note_room(void)
{
	u64 capacity = bpf_cache_ext_capacity(STATE->lir);
	u64 room = STATE->room;

	STATE->room = !room || capacity < room ? capacity : room + (capacity - room + 255) / 256;
}

static void prune(struct cache_ext_eviction_ctx *request)
{
	u64 length = bpf_cache_ext_list_len(STATE->lir);
	u64 target = lir_target();
	struct prune prune = {
		.excess = length > target ? length - target : 0,
		.now = STATE->clock,
		.bottom = STATE->clock,
	};
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SIMPLE,
		.max_scan = CACHE_EXT_MAX_BATCH,
		.target_list = STATE->queue,
	};

	bpf_cache_ext_list_iterate(STATE->lir, request, prune_stack, &prune, &opts);
	STATE->bottom = prune.bottom;
}

CACHE_EXT_HOOK(void, lirs_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SIMPLE,
		.target_list = STATE->lir,
	};
	u64 kept = 0, queued, taken, missing;

	make_spare(request->nr_requested);
	note_room();
	prune(request);
	queued = bpf_cache_ext_list_len(STATE->queue);
	bpf_cache_ext_list_iterate(STATE->queue, request, evict_from_queue, &kept, &opts);
	taken = request->nr_proposed + kept;
	missing = request->nr_requested > request->nr_proposed
			  ? request->nr_requested - request->nr_proposed
			  : 0;
	note_spare(missing, queued > taken ? queued - taken : 0);
	if (missing)
		bpf_cache_ext_list_iterate(STATE->lir, request, evict_lir, NULL, &opts);
}

CACHE_EXT_OPS(lirs, .init = HOOK(lirs_init), .evict_folios = HOOK(lirs_evict_folios),
	      .folio_added = HOOK(lirs_folio_added), .folio_accessed = HOOK(lirs_folio_accessed),
	      .folio_removed = HOOK(lirs_folio_removed));
