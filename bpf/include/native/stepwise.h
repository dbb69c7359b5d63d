/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A request in steps, for a caller that decides itself which pages a miss reads. The caller asks
 * whether a page is cached, adds pages, and accesses pages. The kernel does the same around
 * page_cache_ra_unbounded().
 */
#ifndef CACHE_EXT_NATIVE_STEPWISE_H
#define CACHE_EXT_NATIVE_STEPWISE_H

#include "page_cache.h"

/* End the request. It counts as one request for each of its pages. */
static void cx_end_request(struct cx_sim *sim, u64 pages)
{
	cx_self = sim;
	sim->tasks = NULL;
	if (sim->times_ns)
		sim->times_ns = &sim->last_ns;
	sim->now += pages;
	sim->column_start = sim->now;
}

/*
 * Begin a request. Its steps belong to the task and take place at *time_ns. If time_ns is NULL, the
 * clock is not changed.
 */
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

/* The node number of the page if it is resident, otherwise 0. */
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
 * Add a page that is not resident. A page that was asked for is added if the policy admits it. A
 * page that is read ahead (`ahead`) is always added, because it stays at least until its first
 * access. Returns 1 if the page was added, 0 if it was refused.
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
	/* The next access to the page is its first. */
	folio->flags |= ahead ? CX_UNUSED : CX_FRESH;
	return 1;
}

/*
 * Access a page if it is resident. If the page was read ahead and the policy does not admit it, the
 * page is removed after this first access.
 */
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
