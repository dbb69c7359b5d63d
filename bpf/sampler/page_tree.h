/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the folio at an index of a file in its page cache, as xa_load() does (lib/xarray.c). No
 * helper does this for a BPF program. Programs run under RCU. If a node is freed nevertheless, the
 * read is still safe, because it cannot fault.
 */
#ifndef CACHEPILOT_SAMPLER_PAGE_TREE_H
#define CACHEPILOT_SAMPLER_PAGE_TREE_H

#include "kernel_types.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>

/* Maximum depth of the tree: an index has 64 bits, and each level at least 4 of them. */
#define TREE_LEVELS 16
#define ENTRY_KIND 3UL
#define ENTRY_INTERNAL 2UL
/* Internal entries up to this value are not nodes. Those below the number of slots are siblings. */
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

/*
 * Returns NULL if nothing is cached at this index, or if this kernel's page cache has another form.
 */
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
