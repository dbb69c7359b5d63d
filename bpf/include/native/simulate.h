/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The simulation loop of one policy. It is included after policy.bpf.c, whose hooks are inlined
 * here.
 *
 * A miss does the same as in the kernel: the charge reclaims to make room, then folio_added is
 * called, then folio_accessed.
 */
#ifndef CACHE_EXT_NATIVE_SIMULATE_H
#define CACHE_EXT_NATIVE_SIMULATE_H

#include "page_cache.h"

#ifdef CX_LAYERED
#include "layered.h"
#else
#define cx_ops cx_table
#endif

#define CX_BLOCK 512	 /* requests whose keys are hashed together */
#define CX_SLOT_AHEAD 20 /* requests between the prefetch of a slot and its use */
#define CX_NODE_AHEAD 10 /* likewise for the node that the slot names */

static __always_inline u32 cx_find(u64 key, u64 hash)
{
	const struct cx_index *index = &cx_self->index;
	u64 slot = cx_index_home(index, hash);
	u32 tag = cx_index_tag(index, slot, hash);

	for (;; slot++) {
		u32 value = index->slots[slot];
		u32 number = value & index->node_mask;

		if (!value)
			return 0;
		if ((value ^ number) == tag && likely(cx_self->nodes[number].key == key))
			return number;
	}
}

/*
 * Rarely called. Rebuild the index. If an entry does not fit, try again with one eighth more homes.
 */
static __noinline bool cx_rebuild_index(u64 home_count)
{
	struct cx_sim *sim = cx_self;

	for (int attempt = 0; attempt < 24; attempt++, home_count += home_count / 8) {
		struct cx_index index;
		bool fits = true;

		if (cx_index_create(&index, sim->node_count, home_count))
			return false;
		for (u32 i = CX_ANCHORS; i < sim->fresh && fits; i++)
			if (sim->nodes[i].flags & CX_INDEXED)
				fits = cx_index_insert(&index, cx_hash(sim->nodes[i].key), i);
		if (fits) {
			free(sim->index.slots);
			sim->index = index;
			return true;
		}
		free(index.slots);
	}
	return false;
}

/* Nodes keep their numbers when the array moves. No hook has a pointer to a folio at this time. */
static __noinline bool cx_set_node_count(u64 node_count)
{
	struct cx_sim *sim = cx_self;
	struct folio *nodes = realloc(sim->nodes, node_count * sizeof(struct folio));

	if (!nodes)
		return false;
	sim->nodes = nodes;
	sim->node_count = node_count;
	return cx_rebuild_index(cx_homes_for(node_count));
}

/*
 * Rarely called. Add one eighth of the nodes, up to the number needed with the capacity and all
 * ghost lists full.
 */
static __noinline bool cx_grow_nodes(void)
{
	u64 most = cx_most_nodes(cx_self);
	u64 count = cx_self->node_count + cx_self->node_count / 8;

	if (most > CX_INDEX_NODES)
		most = CX_INDEX_NODES;
	if (cx_self->node_count >= most)
		return false;
	return cx_set_node_count(count < most ? count : most);
}

static __always_inline u32 cx_new_node(u64 key, u64 hash)
{
	struct cx_sim *sim = cx_self;
	u32 number = sim->free_head;

	if (number)
		sim->free_head = sim->nodes[number].next;
	else if (likely(sim->fresh < sim->node_count) || cx_grow_nodes())
		number = sim->fresh++;
	else
		return 0;
	sim->nodes[number].key = key;
	sim->nodes[number].list = 0;
	sim->nodes[number].flags = 0;
	while (unlikely(!cx_index_insert(&sim->index, hash, number)))
		if (!cx_rebuild_index(sim->index.home_count + sim->index.home_count / 8))
			return 0;
	sim->nodes[number].flags = CX_INDEXED;
	return number;
}

static __always_inline void cx_remove(struct folio *folio, bool evicted)
{
	cx_self->resident--;
	folio->flags &= (u8) ~(CX_PROPOSED | CX_UNUSED | CX_FRESH);
	if (cx_ops.folio_removed)
		cx_ops.folio_removed(folio, evicted);
	/* The folio has become a ghost, which the hook may already have trimmed. */
	if (CX_IS_GHOST(folio->list) || unlikely(!folio->flags))
		return;
	bpf_cache_ext_list_del(folio);
	cx_free(folio);
}

/* Evict by reclaim, and log the eviction if a log was requested. */
static __always_inline void cx_evict(struct folio *folio)
{
	struct cx_sim *sim = cx_self;

	if (unlikely(sim->eviction_log)) {
		if (sim->logged < sim->log_capacity)
			sim->eviction_log[sim->logged] = (struct cx_eviction){folio->key, sim->now};
		sim->logged++;
	}
	sim->stats.evictions++;
	cx_remove(folio, true);
}

/*
 * The choice of the simulated kernel: the head of the first list that is not empty, or else a
 * resident page on no list.
 */
static __noinline struct folio *cx_fallback(void)
{
	for (u32 list = 1; list <= cx_self->nr_lists; list++)
		if (cx_self->len[list])
			return &cx_self->nodes[cx_self->nodes[list].next];
	for (u32 i = CX_ANCHORS; i < cx_self->fresh; i++)
		if ((cx_self->nodes[i].flags & (CX_INDEXED | CX_PROPOSED)) == CX_INDEXED &&
		    !cx_self->nodes[i].list)
			return &cx_self->nodes[i];
	return NULL;
}

/*
 * Whether the candidate is in use at this moment, with the probability refused_per_million. Such a
 * candidate stays cached and goes to the tail of its list.
 */
static bool cx_refuses(struct folio *folio)
{
	u64 x = cx_self->refusal_random;
	u32 list = folio->list;

	if (likely(!cx_self->refused_per_million))
		return false;
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	cx_self->refusal_random = x;
	if (((x * 0x2545f4914f6cdd1dull) >> 32) * 1000000 >> 32 >= cx_self->refused_per_million)
		return false;
	folio->flags &= (u8)~CX_PROPOSED;
	cx_self->stats.rejected++;
	if (list) {
		cx_unlink(folio);
		cx_link(list, folio, true);
	}
	return true;
}

/*
 * Serve one request for `count` pages. Returns the number of freed pages, and adds the number of
 * refused ones to `refused`.
 */
static __always_inline u64 cx_request(u64 count, u64 *refused)
{
	struct cx_sim *sim = cx_self;
	struct cache_ext_eviction_ctx ctx = {.nr_requested = count};
	u64 freed = 0;

	cx_ops.evict_folios(&ctx, NULL);
	for (u64 i = 0; i < ctx.nr_proposed; i++) {
		u64 hash = cx_hash(sim->nodes[ctx.nodes[i]].key);

		__builtin_prefetch(&sim->index.slots[cx_index_home(&sim->index, hash)]);
	}
	for (u64 i = 0; i < ctx.nr_proposed; i++) {
		if (unlikely(cx_refuses(&sim->nodes[ctx.nodes[i]])))
			continue;
		cx_evict(&sim->nodes[ctx.nodes[i]]);
		freed++;
	}
	sim->stats.proposed += ctx.nr_proposed;
	*refused += ctx.nr_proposed - freed;
	return freed;
}

/*
 * Free at least one and at most `count` pages. Like the kernel, ask again for as many pages as were
 * refused, until two requests in a row free nothing. Not inlined: a call is rare or has several
 * callers.
 */
static __noinline void cx_reclaim(u64 count)
{
	u64 missing = count;
	u64 freed = 0;
	int futile = 0;

	do {
		u64 refused = 0;
		u64 now_freed = cx_request(missing, &refused);

		freed += now_freed;
		missing = refused;
		futile = now_freed ? 0 : futile + 1;
	} while (unlikely(missing) && futile < 2);
	if (unlikely(!freed)) {
		cx_evict(cx_fallback());
		cx_self->stats.fallbacks++;
	}
}

static __always_inline void cx_leave_ghost(struct folio *folio)
{
	cx_self->incoming_ghost = folio->list;
	cx_self->incoming_value = cx_ghost_value(folio);
	cx_unlink(folio);
	folio->list = 0;
	folio->flags |= CX_PROPOSED; /* so that reclaim does not take it for a resident page */
}

/*
 * Make room and add the page. `number` is the node of its ghost, or 0. Returns NULL if out of
 * memory.
 */
static __always_inline struct folio *cx_add(u64 key, u64 hash, u32 number)
{
	struct cx_sim *sim = cx_self;
	struct folio *folio;

	sim->incoming_ghost = 0;
	if (number) /* before reclaim, which may drop ghosts */
		cx_leave_ghost(&sim->nodes[number]);
	if (sim->resident >= sim->capacity)
		cx_reclaim(sim->batch);
	if (number)
		sim->nodes[number].flags = CX_INDEXED;
	else
		number = cx_new_node(key, hash);
	if (unlikely(!number))
		return NULL;
	folio = &sim->nodes[number];
#if CX_NODE_STATE_BYTES > 0
	memset(folio->state, 0, sizeof(folio->state));
#endif
	sim->resident++;
	cx_ops.folio_added(folio);
	sim->stats.unlisted += !folio->list;
	return folio;
}

static __always_inline bool cx_miss(u64 key, u64 hash, u32 number)
{
	struct folio *folio;

	cx_self->stats.misses++;
	if (cx_ops.admit_folio && !cx_ops.admit_folio(cx_hash(key))) {
		cx_self->stats.refused++;
		return true;
	}
	folio = cx_add(key, hash, number);
	if (unlikely(!folio))
		return false;
	if (cx_ops.folio_accessed)
		cx_ops.folio_accessed(folio, true);
	return true;
}

/*
 * The kernel counts re-references and reports them later, but before the policy looks at the folio.
 * A call for each one therefore has the same result.
 */
static __always_inline void cx_hit(struct folio *folio)
{
	if (cx_ops.folio_counted)
		cx_ops.folio_counted(folio, 1);
	else if (cx_ops.folio_accessed)
		cx_ops.folio_accessed(folio, false);
}

static __always_inline int cx_run_block(const u64 *keys, const u64 *hashes, u64 count, u64 ahead,
					u8 *hits)
{
	struct cx_sim *sim = cx_self;

	for (u64 i = 0; i < count; i++) {
		u32 number;
		bool hit;

		if (i + CX_SLOT_AHEAD < ahead)
			__builtin_prefetch(&sim->index.slots[cx_index_home(
				&sim->index, hashes[i + CX_SLOT_AHEAD])]);
		if (i + CX_NODE_AHEAD < ahead) {
			u64 home = cx_index_home(&sim->index, hashes[i + CX_NODE_AHEAD]);

			__builtin_prefetch(
				&sim->nodes[sim->index.slots[home] & sim->index.node_mask]);
		}
		number = cx_find(keys[i], hashes[i]);
		hit = number && !CX_IS_GHOST(sim->nodes[number].list);
		if (hits)
			hits[i] = hit;
		if (likely(hit)) {
			cx_hit(&sim->nodes[number]);
		} else if (unlikely(!cx_miss(keys[i], hashes[i], number))) {
			return -ENOMEM;
		}
		sim->now++;
	}
	return 0;
}

static __always_inline int cx_run_blocks(const u64 *keys, u64 count, u8 *hits)
{
	u64 hashes[CX_BLOCK + CX_SLOT_AHEAD];

	for (u64 start = 0; start < count; start += CX_BLOCK) {
		u64 left = count - start;
		u64 block = left < CX_BLOCK ? left : CX_BLOCK;
		u64 ahead = left < CX_BLOCK + CX_SLOT_AHEAD ? left : CX_BLOCK + CX_SLOT_AHEAD;
		int error;

		for (u64 i = 0; i < ahead; i++)
			hashes[i] = cx_hash(keys[start + i]);
		error = cx_run_block(keys + start, hashes, block, ahead,
				     hits ? hits + start : NULL);
		if (error)
			return error;
	}
	return 0;
}

#include "instance.h"

#endif
