/* SPDX-License-Identifier: Apache-2.0 */
/* A policy that breaks the rules, in one way at a time. User space selects the way. */
#include "test_policy.h"

#define SAME_FOLIO_TIMES 32
#define MOST_ROUNDS 2
#define MOST_SPINS 1000
#define CLOCKS 16
#define MOST_SCANS 16
#define UNKNOWN_LIST 30

enum mode {
	HONEST,
	SILENT,	       /* proposes nothing */
	SAME,	       /* proposes one folio 32 times */
	HELD,	       /* proposes folios that it held on to until user space releases them */
	SCANNING,      /* looks at all folios again and again and proposes none */
	FOREIGN_LISTS, /* uses unknown lists, and functions that this hook may not call */
	SLOW,	       /* takes a long time for each request, then serves it */
	FAILING_INIT,
	POSITIVE_INIT,
	SHOWN, /* as HELD, but while the held folios are being shown */
};

/* tests/kernel/guest/src/hostile.rs declares the same layout. */
struct hostile_state {
	u64 list;
	u64 mode;
	u64 device; /* the file whose folios are held */
	u64 inode;
	u64 holding;
	u64 release;
	u64 spin_ns;
	u64 deadline_ns;
	u64 succeeded; /* calls that should have been refused but succeeded */
	u64 refused;
	u64 proposed;
	u64 longest_ns; /* longest duration of a request */
};

POLICY_STATE(struct hostile_state);

struct held {
	struct cache_ext_eviction_ctx *request;
	struct folio *first, *second, *third, *fourth;
};

CACHE_EXT_HOOK(s32, hostile_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	if (STATE->mode == FAILING_INIT)
		return -ENOMEM;
	return STATE->mode == POSITIVE_INIT ? 7 : 0;
}

CACHE_EXT_HOOK(void, hostile_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->list, folio, true);
}

static void expect_refused(s64 result)
{
	cache_ext_add(result < 0 ? &STATE->refused : &STATE->succeeded, 1);
}

static s64 propose_often(struct folio *folio, void *data)
{
	struct held *held = data;

	for (int i = 0; i < SAME_FOLIO_TIMES; i++)
		if (!bpf_cache_ext_propose(held->request, folio))
			cache_ext_add(&STATE->proposed, 1);
	return CACHE_EXT_STOP;
}

static s64 hold(struct folio *folio, void *data)
{
	struct held *held = data;

	if (!is_of_file(folio, STATE->device, STATE->inode))
		return CACHE_EXT_KEEP;
	if (!held->first)
		held->first = folio;
	else if (!held->second)
		held->second = folio;
	else if (!held->third)
		held->third = folio;
	else
		held->fourth = folio;
	return held->fourth ? CACHE_EXT_STOP : CACHE_EXT_KEEP;
}

static bool spun_enough(void)
{
	volatile u64 *release = &STATE->release;
	u64 now = 0;

#pragma unroll
	for (int i = 0; i < CLOCKS; i++)
		now = cache_ext_clock_ns();
	return *release || now > STATE->deadline_ns;
}

/* Each loop is short, but it runs for each of many folios. */
static s64 spin(struct folio *folio, void *data)
{
	for (u32 i = 0; i < MOST_SPINS; i++)
		if (spun_enough())
			return CACHE_EXT_STOP;
	return CACHE_EXT_KEEP;
}

/*
 * The held folios are at the head of the list. A folio cannot be evicted while it is shown, and the
 * held ones are to be evicted meanwhile. So the iteration starts at the tail, except in mode SHOWN.
 */
static void spin_until(u64 deadline_ns, struct held *held)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE,
					   .from_tail = STATE->mode != SHOWN};

	STATE->deadline_ns = deadline_ns;
	for (int round = 0; round < MOST_ROUNDS; round++)
		bpf_cache_ext_list_iterate(STATE->list, held->request, spin, NULL, &opts);
}

static void propose_held(struct held *held, struct folio *folio)
{
	if (folio)
		expect_refused(bpf_cache_ext_propose(held->request, folio));
}

static void hold_and_propose(struct held *held, struct cache_ext_iter_opts *opts)
{
	bpf_cache_ext_list_iterate(STATE->list, held->request, hold, held, opts);
	if (!held->fourth)
		return;
	STATE->holding = 1;
	spin_until((u64)-1, held);
	propose_held(held, held->first);
	propose_held(held, held->second);
	propose_held(held, held->third);
	propose_held(held, held->fourth);
	STATE->mode = HONEST;
}

static s64 keep(struct folio *folio, void *data)
{
	return CACHE_EXT_KEEP;
}

static s64 misuse(struct folio *folio, void *data)
{
	struct held *held = data;
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	expect_refused(bpf_cache_ext_list_add(UNKNOWN_LIST, folio, true));
	expect_refused(bpf_cache_ext_list_add(STATE->list, folio, true));
	expect_refused(bpf_cache_ext_list_move(0, folio, true));
	expect_refused(bpf_cache_ext_list_move(UNKNOWN_LIST, folio, false));
	expect_refused(bpf_cache_ext_list_move((u64)-1, folio, false));
	expect_refused(bpf_cache_ext_ghost_add(1, folio, 0));
	expect_refused(bpf_cache_ext_list_iterate(STATE->list, held->request, keep, NULL, &opts));
	return CACHE_EXT_STOP;
}

static s64 move(struct folio *folio, void *data)
{
	return CACHE_EXT_MOVE;
}

static void misuse_lists(struct held *held, struct cache_ext_iter_opts *opts,
			 struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts elsewhere = {
		.mode = CACHE_EXT_ITER_SIMPLE, .max_scan = 1, .target_list = UNKNOWN_LIST};

	bpf_cache_ext_list_iterate(STATE->list, held->request, misuse, held, opts);
	bpf_cache_ext_list_iterate(STATE->list, held->request, move, NULL, &elsewhere);
	expect_refused(
		bpf_cache_ext_list_iterate(UNKNOWN_LIST, held->request, evict_any, NULL, opts));
	expect_refused(bpf_cache_ext_list_create(memcg) ? 0 : -EINVAL);
	expect_refused(bpf_cache_ext_ghost_create(memcg, 50) ? 0 : -EINVAL);
}

static void serve(struct held *held, struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	switch (STATE->mode) {
	case SILENT:
		return;
	case SAME:
		bpf_cache_ext_list_iterate(STATE->list, held->request, propose_often, held, &opts);
		return;
	case HELD:
	case SHOWN:
		hold_and_propose(held, &opts);
		break;
	case SCANNING:
		for (int i = 0; i < MOST_SCANS; i++)
			bpf_cache_ext_list_iterate(STATE->list, held->request, keep, NULL, &opts);
		return;
	case FOREIGN_LISTS:
		misuse_lists(held, &opts, memcg);
		break;
	case SLOW:
		spin_until(cache_ext_clock_ns() + STATE->spin_ns, held);
		break;
	}
	evict_oldest(STATE->list, held->request);
}

CACHE_EXT_HOOK(void, hostile_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct held held = {.request = request};
	u64 began_ns = cache_ext_clock_ns();
	u64 took_ns;

	serve(&held, memcg);
	took_ns = cache_ext_clock_ns() - began_ns;
	if (took_ns > STATE->longest_ns)
		STATE->longest_ns = took_ns;
}

CACHE_EXT_OPS(hostile, .init = HOOK(hostile_init), .evict_folios = HOOK(hostile_evict_folios),
	      .folio_added = HOOK(hostile_folio_added));
