/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The folio in a place of a file, found in its page cache as xa_load() finds it (lib/xarray.c): no
 * helper does that for a program. Programs are called with RCU held, and what is read of a node
 * that is freed nevertheless is read safely.
 */
#ifndef CACHEPILOT_SAMPLER_PAGE_TREE_H
#define CACHEPILOT_SAMPLER_PAGE_TREE_H

#include "kernel_types.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>

/* 64 bits of an index, at least 4 a level. */
#define TREE_LEVELS 16
#define ENTRY_KIND 3UL
#define ENTRY_INTERNAL 2UL
/* Internal entries up to this are no nodes; those below the number of slots are siblings. */
#define LAST_NO_NODE 4096UL

static __always_inline bool is_node(u64 entry)
{
	return (entry & ENTRY_KIND) == ENTRY_INTERNAL && entry > LAST_NO_NODE;
}

static __always_inline u64 slot_of(u64 node, u64 slot)
{
	u64 entry = 0;

	bpf_probe_read_kernel(&entry, sizeof(entry),
			      (void *)(node + bpf_core_field_offset(struct xa_node, slots) +
				       slot * sizeof(entry)));
	return entry;
}

/* NULL when nothing is cached there, or the kernel keeps its page cache in another way. */
static __always_inline void *folio_at(struct address_space *mapping, u64 index)
{
	u64 slots, slot, entry;

	if (!bpf_core_field_exists(struct address_space, i_pages.xa_head) ||
	    !bpf_core_field_exists(struct xa_node, slots) ||
	    !bpf_core_field_exists(struct xa_node, shift))
		return NULL;
	slots = bpf_core_field_size(struct xa_node, slots) / sizeof(entry);
	entry = (u64)BPF_CORE_READ(mapping, i_pages.xa_head);
	if (!is_node(entry) && index)
		return NULL;
	for (u32 level = 0; level < TREE_LEVELS && is_node(entry); level++) {
		u64 node = entry - ENTRY_INTERNAL;
		u8 shift = BPF_CORE_READ((struct xa_node *)node, shift) & 63;

		slot = index >> shift;
		if (!level && slot >= slots)
			return NULL;
		slot &= slots - 1;
		entry = slot_of(node, slot);
		if ((entry & ENTRY_KIND) == ENTRY_INTERNAL && entry >> 2 < slots)
			entry = slot_of(node, entry >> 2);
	}
	return entry & ENTRY_KIND ? NULL : (void *)entry;
}

#endif
