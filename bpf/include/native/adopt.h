/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The pages that a simulated cache has, and adoption: handing them to the instance of another
 * policy, as the kernel does when it replaces a policy.
 */
#ifndef CACHE_EXT_NATIVE_ADOPT_H
#define CACHE_EXT_NATIVE_ADOPT_H

#include "page_cache.h"

/*
 * Write the keys of all resident pages in the order in which the kernel hands them over: the lists
 * in the order of their creation, each from its head, then the pages on no list. `keys` has room
 * for all resident pages.
 */
static void cx_resident(const struct cx_sim *sim, u64 *keys)
{
	for (u32 list = 1; list <= sim->nr_lists; list++)
		for (u32 i = sim->nodes[list].next; i != list; i = sim->nodes[i].next)
			*keys++ = sim->nodes[i].key;
	for (u32 i = CX_ANCHORS; i < sim->fresh; i++)
		if ((sim->nodes[i].flags & CX_INDEXED) && !sim->nodes[i].list)
			*keys++ = sim->nodes[i].key;
}

/*
 * Add pages without an access. The pages do not count as requests or misses, and admit_folio is not
 * asked. If they do not all fit, reclaim makes room as for a miss.
 */
static int cx_adopt(struct cx_sim *sim, const u64 *keys, u64 count)
{
	cx_self = sim;
	for (u64 i = 0; i < count; i++) {
		u64 hash = cx_hash(keys[i]);
		u32 number = cx_find(keys[i], hash);

		if (number && !CX_IS_GHOST(sim->nodes[number].list))
			continue;
		if (!cx_add(keys[i], hash, number))
			return -ENOMEM;
		sim->stats.adopted++;
	}
	return 0;
}

#endif
