/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The index maps a page key to a node number. It uses open addressing with linear probing and four
 * bytes per slot.
 *
 * A slot holds a node number and a tag. The tag consists of the low CX_HOME_BITS bits of the
 * entry's home, which is the slot where the probe for its key begins, and of bits of the key's
 * hash. The tag rejects almost all other entries without a look at their nodes. With the home bits
 * a deletion can move later entries towards their homes without reading any node, so there are no
 * tombstones. If an entry would lie CX_HOME_SPAN or more slots behind its home, the table grows.
 */
#ifndef CACHE_EXT_NATIVE_INDEX_H
#define CACHE_EXT_NATIVE_INDEX_H

#include "types.h"

#define CX_HOME_BITS 6
#define CX_HOME_SPAN (1u << CX_HOME_BITS)
/* Maximum number of nodes: a slot has room for a node number and the home bits. */
#define CX_INDEX_NODES ((1ull << (32 - CX_HOME_BITS)) - 1)

struct cx_index {
	u32 *slots;	/* 0: empty */
	u64 home_count; /* homes are 0 .. home_count - 1; CX_HOME_SPAN more slots follow */
	u32 node_bits;
	u32 node_mask;
};

/*
 * The finalizer of Murmur3. The key is mixed with a constant first, so that pages that were sampled
 * by their page_hash() do not cluster here.
 */
static __always_inline u64 cx_hash(u64 key)
{
	u64 x = key ^ 0x5851f42d4c957f2dull;

	x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
	x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
	return x ^ (x >> 33);
}

static __always_inline u64 cx_index_home(const struct cx_index *index, u64 hash)
{
	return ((hash >> 32) * index->home_count) >> 32;
}

/* The value of the slot without the node number. */
static __always_inline u32 cx_index_tag(const struct cx_index *index, u64 home, u64 hash)
{
	u32 tag = (u32)(home & (CX_HOME_SPAN - 1)) | (u32)hash << CX_HOME_BITS;

	return tag << index->node_bits;
}

/*
 * Allocate an index for node numbers 1 .. max_nodes. Returns -EINVAL if a slot has no room for such
 * a number and the home bits.
 */
static inline int cx_index_create(struct cx_index *index, u64 max_nodes, u64 home_count)
{
	u32 bits = 1;

	while ((1ull << bits) <= max_nodes)
		bits++;
	if (bits + CX_HOME_BITS > 32)
		return -EINVAL;
	index->node_bits = bits;
	index->node_mask = (u32)((1ull << bits) - 1);
	index->home_count = home_count;
	index->slots = calloc(home_count + CX_HOME_SPAN + 1, sizeof(u32));
	return index->slots ? 0 : -ENOMEM;
}

static __always_inline u64 cx_index_bytes(const struct cx_index *index)
{
	return (index->home_count + CX_HOME_SPAN + 1) * sizeof(u32);
}

/* Returns false if the entry would lie too far from its home; the caller then grows the table. */
static __always_inline bool cx_index_insert(struct cx_index *index, u64 hash, u32 node)
{
	u64 home = cx_index_home(index, hash);
	u64 slot = home;

	while (index->slots[slot])
		slot++;
	if (unlikely(slot - home >= CX_HOME_SPAN))
		return false;
	index->slots[slot] = cx_index_tag(index, home, hash) | node;
	return true;
}

static __always_inline void cx_index_remove(struct cx_index *index, u64 hash, u32 node)
{
	u64 hole = cx_index_home(index, hash);
	u64 slot;

	while ((index->slots[hole] & index->node_mask) != node)
		hole++;
	for (slot = hole + 1; index->slots[slot]; slot++) {
		u32 home_low = index->slots[slot] >> index->node_bits;
		u64 distance = (slot - home_low) & (CX_HOME_SPAN - 1);

		if (slot - hole > distance)
			continue;
		index->slots[hole] = index->slots[slot];
		hole = slot;
	}
	index->slots[hole] = 0;
}

#endif
