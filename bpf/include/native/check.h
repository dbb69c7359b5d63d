/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Invariants of the simulated page cache, checked after each run of a debug build. */
#ifndef CACHE_EXT_NATIVE_CHECK_H
#define CACHE_EXT_NATIVE_CHECK_H

#include "page_cache.h"

/*
 * NULL if the links, the length and the membership of the list agree, otherwise the invariant that
 * does not hold.
 */
static const char *cx_check_list(u32 list)
{
	const struct cx_sim *sim = cx_self;
	u32 previous = list;
	u64 count = 0;

	for (u32 i = sim->nodes[list].next; i != list; i = sim->nodes[i].next) {
		const struct folio *folio = &sim->nodes[i];

		if (i < CX_ANCHORS || i >= sim->fresh)
			return "a list links to a node that was never used";
		if (folio->prev != previous)
			return "a list's links disagree with each other";
		if (folio->list != list)
			return "a page is linked on a list that it does not belong to";
		if (!(folio->flags & CX_INDEXED) || (folio->flags & CX_PROPOSED))
			return "a listed page is not indexed or still marked as a candidate";
		if (cx_find(folio->key, cx_hash(folio->key)) != i)
			return "a listed page cannot be found by its key";
		if (++count > sim->len[list])
			return "a list is longer than its count";
		previous = i;
	}
	return count == sim->len[list] ? NULL : "a list is shorter than its count";
}

static u64 cx_used_slots(void)
{
	u64 used = 0;

	for (u64 slot = 0; slot <= cx_self->index.home_count + CX_HOME_SPAN; slot++)
		used += cx_self->index.slots[slot] != 0;
	return used;
}

/* NULL if all invariants hold, otherwise the first one that does not. */
static const char *cx_check(void)
{
	const struct cx_sim *sim = cx_self;
	u64 resident = 0, ghosts = 0;

	for (u32 list = 1; list < CX_ANCHORS; list++) {
		const char *broken = cx_check_list(list);

		if (broken)
			return broken;
		if (CX_IS_GHOST(list))
			ghosts += sim->len[list];
		else
			resident += sim->len[list];
	}
	if (resident != sim->resident)
		return "a resident page is on no list";
	if (sim->resident > sim->capacity)
		return "more pages are resident than the capacity";
	if (cx_used_slots() != resident + ghosts)
		return "the index holds pages that are neither resident nor ghosts";
	if (sim->stats.misses > sim->now ||
	    sim->stats.evictions > sim->stats.misses + sim->stats.adopted + sim->stats.ahead)
		return "the counts of requests, misses and evictions contradict each other";
	for (u32 i = 0; i < sim->nr_ghosts; i++)
		if (sim->len[CX_LISTS + i] > sim->ghost_capacity[i])
			return "a ghost list is longer than its capacity";
	return NULL;
}

#endif
