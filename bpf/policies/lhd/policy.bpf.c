/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* LHD: of the next pages of the list, those with the lowest hit density are evicted. */
#include "cache_ext.bpf.h"

/*
 * Time is counted in ticks. A tick is 1 / 2^TICK_SHIFT as many accesses as the capacity has pages.
 * Ticks since the last access are grouped into AGES ranges, called ages: these are one tick wide at
 * first, then there are 2^STEP_BITS ranges to each doubling, up to 64 capacities. Cost and
 * resolution are thus the same for any capacity.
 */
#define TICK_SHIFT 11
#define STEP_BITS 2
#define AGES 64
/*
 * Class 0 has pages that were never hit. The others are classified by the greatest age at any hit:
 * class 1 from 4 ticks on, class 2 from 2 ticks on, class 3 below.
 */
#define CLASSES 4
/* Fixed-point weight of an event, and the cell value at which counting stops, see learn(). */
#define EVENT 16
#define MAX_EVENTS (1u << 26)
#define DECAY_SHIFT 3
/*
 * All classes are learned once in a period. It has as many accesses as the capacity has pages,
 * within these bounds.
 */
#define MIN_PERIOD (1u << 10)
#define MAX_PERIOD (1u << 19)
/*
 * One in EXPLORE_EVERY added pages explores, as long as at most 1 / EXPLORER_SHARE of the pages do.
 */
#define EXPLORE_EVERY 128
#define EXPLORER_SHARE 100
#define EXPLORER_DENSITY (1ll << 32)

#define STEPS (1u << STEP_BITS)

struct lhd_class {
	u32 hits[AGES];
	u32 evictions[AGES];
	u32 density[AGES]; /* expected hits per half tick, 31 fractional bits */
};

struct lhd_state {
	u64 pages;
	u32 now;	 /* in ticks */
	u32 tick_left;	 /* in accesses */
	u32 period_left; /* accesses until the next class is learned */
	u32 next_class;
	u32 added;
	u32 may_explore;
	struct lhd_class classes[CLASSES];
};

#define TICK_BITS 28
#define TICK_MASK ((1u << TICK_BITS) - 1)

struct lhd_folio {
	u32 accessed : TICK_BITS;
	u32 class : 3;
	u32 explores : 1; /* kept until a hit or the greatest age, to observe late hits */
};

POLICY_STATE(struct lhd_state);
POLICY_FOLIO_STATE(struct lhd_folio);

static u32 octave_of(u32 ticks)
{
	return 31 - (u32)__builtin_clz(ticks | 1);
}

static u32 age_of_ticks(u32 ticks)
{
	u32 shift, age;

	if (ticks < STEPS)
		return ticks;
	shift = octave_of(ticks) - STEP_BITS;
	age = shift * STEPS + (ticks >> shift);
	return age < AGES ? age : AGES - 1;
}

/* Number of ticks in an age. */
static u32 width_of_age(u32 age)
{
	return age < STEPS ? 1 : 1u << (age / STEPS - 1);
}

static u32 first_tick_of_age(u32 age)
{
	return age < STEPS ? age : (STEPS + age % STEPS) * width_of_age(age);
}

/* A page that was once hit late stays in a low class, whatever bursts of hits follow. */
static u32 class_after_hit(u32 class, u32 ticks)
{
	u32 octave = octave_of(ticks);
	u32 own = octave > CLASSES - 2 ? 1 : CLASSES - 1 - octave;

	return class && class < own ? class : own;
}

static u32 ticks_since_access(const struct lhd_folio *state, u32 now)
{
	return (now - state->accessed) & TICK_MASK;
}

static struct lhd_class *class_of(const struct lhd_folio *state)
{
	return &STATE->classes[state->class & (CLASSES - 1)];
}

/*
 * Until something is learned, frequently hit classes rank above others, and recent ages above old
 * ones.
 */
CACHE_EXT_HOOK(s32, lhd_init, struct mem_cgroup *memcg)
{
	for (u32 class = 0; class < CLASSES; class ++)
		for (u32 age = 0; age < AGES; age++)
			STATE->classes[class].density[age] =
				((class + 1) << 29) / (first_tick_of_age(age) + 1);
	STATE->tick_left = 1;
	STATE->pages = bpf_cache_ext_list_create(memcg);
	return STATE->pages ? 0 : -ENOMEM;
}

/* Add to the head, so that the next request decides whether the new page is worth keeping. */
CACHE_EXT_HOOK(void, lhd_folio_added, struct folio *folio)
{
	struct lhd_folio *state = FOLIO_STATE(folio);

	if (state) {
		state->accessed = STATE->now & TICK_MASK;
		state->explores = STATE->may_explore && STATE->added++ % EXPLORE_EVERY == 0;
	}
	bpf_cache_ext_list_add(STATE->pages, folio, false);
}

static void count_event(u32 *cell)
{
	if (*cell < MAX_EVENTS)
		*cell += EVENT;
}

/*
 * CPUs that count at the same time may lose an access or an event. That is acceptable in
 * statistics.
 */
static void pass_time(void)
{
	if (STATE->period_left)
		STATE->period_left--;
	if (STATE->tick_left > 1) {
		STATE->tick_left--;
		return;
	}
	STATE->tick_left = (u32)(bpf_cache_ext_capacity(STATE->pages) >> TICK_SHIFT) + 1;
	STATE->now++;
}

CACHE_EXT_HOOK(void, lhd_folio_accessed, struct folio *folio, bool first)
{
	struct lhd_folio *state = FOLIO_STATE(folio);
	u32 ticks;

	pass_time();
	if (!state || first)
		return;
	ticks = ticks_since_access(state, STATE->now);
	count_event(&class_of(state)->hits[age_of_ticks(ticks) & (AGES - 1)]);
	state->accessed = STATE->now & TICK_MASK;
	state->class = class_after_hit(state->class, ticks);
	state->explores = 0;
}

CACHE_EXT_HOOK(void, lhd_folio_removed, struct folio *folio, bool evicted)
{
	struct lhd_folio *state = FOLIO_STATE(folio);
	u32 age;

	if (!state || !evicted)
		return;
	age = age_of_ticks(ticks_since_access(state, STATE->now));
	count_event(&class_of(state)->evictions[age & (AGES - 1)]);
}

/*
 * The hit density at an age is the number of hits from that age on, divided by the time that pages
 * go on to spend in the cache (equation 3 of the paper). It is summed up from the oldest age
 * downwards. Events are assumed to lie in the middle of their age, hence the half ticks. With at
 * most AGES * MAX_EVENTS hits the dividend has 63 bits. A page lives for at least half a tick, so
 * the quotient has 32 bits. Ages beyond the oldest event keep their density.
 */
static void learn(struct lhd_class *class)
{
	u64 hits = 0, events = 0, half_ticks = 0;

	for (u32 i = 0; i < AGES; i++) {
		u32 age = AGES - 1 - i;
		u64 here = (u64) class->hits[age] + class->evictions[age];

		half_ticks += (2 * events + here) * width_of_age(age);
		events += here;
		hits += class->hits[age];
		if (half_ticks)
			class->density[age] = (u32)((hits << 31) / half_ticks);
		class->hits[age] -= class->hits[age] >> DECAY_SHIFT;
		class->evictions[age] -= class->evictions[age] >> DECAY_SHIFT;
	}
}

/* Learn one class at a time, so that no request takes long. */
static void learn_next_class(void)
{
	u64 period = bpf_cache_ext_capacity(STATE->pages);

	if (period < MIN_PERIOD)
		period = MIN_PERIOD;
	if (period > MAX_PERIOD)
		period = MAX_PERIOD;
	STATE->period_left = (u32)period / CLASSES;
	learn(&STATE->classes[STATE->next_class++ & (CLASSES - 1)]);
}

/*
 * The clock is read for each page, so that a page accessed since the request began has no access
 * time in the future.
 */
static s64 hit_density(struct folio *folio, void *data)
{
	struct lhd_folio *state = FOLIO_STATE(folio);
	u32 *explorers = data;
	u32 age;

	if (!state)
		return 0;
	age = age_of_ticks(ticks_since_access(state, STATE->now));
	if (state->explores) {
		(*explorers)++;
		if (age < AGES - 1)
			return EXPLORER_DENSITY;
	}
	return class_of(state)->density[age & (AGES - 1)];
}

CACHE_EXT_HOOK(void, lhd_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SCORE,
		.max_scan = cache_ext_scan_pages(STATE->pages, request->nr_requested,
						 TUNABLE(pages_per_candidate)),
	};
	u32 explorers = 0;
	int scored;

	if (!STATE->period_left)
		learn_next_class();
	scored = bpf_cache_ext_list_iterate(STATE->pages, request, hit_density, &explorers, &opts);
	STATE->may_explore = scored > 0 && explorers * EXPLORER_SHARE <= (u32)scored;
}

CACHE_EXT_OPS(lhd, .init = HOOK(lhd_init), .evict_folios = HOOK(lhd_evict_folios),
	      .folio_added = HOOK(lhd_folio_added), .folio_accessed = HOOK(lhd_folio_accessed),
	      .folio_removed = HOOK(lhd_folio_removed));
