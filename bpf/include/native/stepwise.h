/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A request in steps, for a caller that decides itself what a miss reads: is the page held, add these
 * pages, access that one. What the kernel does around page_cache_ra_unbounded().
 */
#ifndef CACHE_EXT_NATIVE_STEPWISE_H
#define CACHE_EXT_NATIVE_STEPWISE_H

#include "page_cache.h"

/* It counts as one request for each of its pages. */
static void cx_end_request(struct cx_sim *sim, u64 pages)
{
	cx_self = sim;
	sim->tasks = NULL;
	if (sim->times_ns)
		sim->times_ns = &sim->last_ns;
	sim->now += pages;
	sim->column_start = sim->now;
}

/* The steps until its end are of this task, and happen at this time unless that is NULL. */
static void cx_begin_request(struct cx_sim *sim, u32 task, const u64 *time_ns)
{
	sim->request_task = task;
	sim->tasks = &sim->request_task;
	sim->column_start = sim->now;
	if (time_ns) {
		sim->last_ns = *time_ns;
		sim->times_ns = &sim->last_ns;
	}
}

/* The page's node, if it is resident. */
static u32 cx_find_resident(u64 key)
{
	u32 number = cx_find(key, cx_hash(key));

	return number && !CX_IS_GHOST(cx_self->nodes[number].list) ? number : 0;
}

static bool cx_holds(struct cx_sim *sim, u64 key)
{
	cx_self = sim;
	return cx_find_resident(key);
}

/*
 * Adds a page that is not resident: the one that is asked for if the policy admits it, one that is
 * read ahead in any case, as it stays until its first reader has it. 1: added.
 */
static int cx_add_page(struct cx_sim *sim, u64 key, bool ahead)
{
	u64 hash = cx_hash(key);
	struct folio *folio;

	cx_self = sim;
	*(ahead ? &sim->stats.ahead : &sim->stats.misses) += 1;
	if (!ahead && cx_ops.admit_folio && !cx_ops.admit_folio(hash)) {
		sim->stats.refused++;
		return 0;
	}
	folio = cx_add(key, hash, cx_find(key, hash));
	if (!folio)
		return -ENOMEM;
	/* The next access is its first. */
	folio->flags |= ahead ? CX_UNUSED : CX_FRESH;
	return 1;
}

/* Accesses a resident page; one that was read ahead and is not admitted goes with its first reader. */
static void cx_access_page(struct cx_sim *sim, u64 key)
{
	struct folio *folio;
	u32 number;
	u8 was;

	cx_self = sim;
	number = cx_find_resident(key);
	if (!number)
		return;
	folio = &sim->nodes[number];
	was = folio->flags;
	folio->flags &= (u8) ~(CX_UNUSED | CX_FRESH);
	if (!(was & (CX_UNUSED | CX_FRESH)))
		cx_hit(folio);
	else if ((was & CX_UNUSED) && cx_ops.admit_folio && !cx_ops.admit_folio(cx_hash(key)))
		cx_remove(folio, false);
	else if (cx_ops.folio_accessed)
		cx_ops.folio_accessed(folio, true);
}

#endif
