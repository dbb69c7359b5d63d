/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Removal of pages, and the ghost lists of the simulated page cache. See cache_ext.bpf.h. */
#ifndef CACHE_EXT_NATIVE_GHOSTS_H
#define CACHE_EXT_NATIVE_GHOSTS_H

#include "page_cache.h"

/* Remove a node that is on no list from the index, and put it on the free chain. */
static __always_inline void cx_free(struct folio *folio)
{
	u32 number = cx_number(folio);

	cx_index_remove(&cx_self->index, cx_hash(folio->key), number);
	folio->list = 0;
	folio->flags = 0;
	folio->next = cx_self->free_head;
	cx_self->free_head = number;
}

static __always_inline void bpf_cache_ext_ghost_trim(u64 ghost, u64 len)
{
	while (cx_self->len[ghost] > len) {
		struct folio *oldest = &cx_self->nodes[cx_self->nodes[ghost].next];

		cx_unlink(oldest);
		cx_free(oldest);
	}
}

static __always_inline u64 bpf_cache_ext_ghost_create(struct mem_cgroup *memcg, u32 capacity_pct)
{
	u32 ghost = cx_self->nr_ghosts;

	(void)memcg;
	if (ghost >= CX_ANCHORS - CX_LISTS)
		return 0;
	cx_self->ghost_pct[ghost] = capacity_pct;
	cx_self->nr_ghosts++;
	return CX_LISTS + ghost;
}

static __always_inline u64 bpf_cache_ext_ghost_len(u64 ghost)
{
	return cx_self->len[ghost];
}

static __always_inline s64 bpf_cache_ext_ghost_take(u64 ghost, const struct folio *folio)
{
	(void)folio;
	if (cx_self->incoming_ghost != ghost)
		return -1;
	cx_self->incoming_ghost = 0;
	return cx_self->incoming_value;
}

/* For use in folio_removed only. The node of the folio becomes the ghost. */
static __always_inline int bpf_cache_ext_ghost_add(u64 ghost, struct folio *folio, u32 value)
{
	bpf_cache_ext_list_del(folio);
	cx_link(ghost, folio, true);
#if CX_GHOST_VALUE_BYTES > 2
	*(u32 *)(void *)folio->state = value;
#elif CX_GHOST_VALUE_BYTES > 0
	*(u16 *)(void *)folio->state = (u16)value;
#else
	(void)value;
#endif
	bpf_cache_ext_ghost_trim(ghost, cx_self->ghost_capacity[ghost - CX_LISTS]);
	return 0;
}

static __always_inline u32 cx_ghost_value(const struct folio *folio)
{
#if CX_GHOST_VALUE_BYTES > 2
	return *(const u32 *)(const void *)folio->state;
#elif CX_GHOST_VALUE_BYTES > 0
	return *(const u16 *)(const void *)folio->state;
#else
	(void)folio;
	return 0;
#endif
}

#endif
