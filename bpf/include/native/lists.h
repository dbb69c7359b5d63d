/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lists, iteration and proposals of the simulated page cache. See cache_ext.bpf.h. */
#ifndef CACHE_EXT_NATIVE_LISTS_H
#define CACHE_EXT_NATIVE_LISTS_H

#include "page_cache.h"

static __always_inline void cx_unlink(struct folio *folio)
{
	struct folio *nodes = cx_self->nodes;

	nodes[folio->prev].next = folio->next;
	nodes[folio->next].prev = folio->prev;
	cx_self->len[folio->list]--;
}

static __always_inline void cx_link(u64 list, struct folio *folio, bool tail)
{
	struct folio *nodes = cx_self->nodes;
	u32 number = cx_number(folio);
	u32 before = tail ? nodes[list].prev : (u32)list;
	u32 after = tail ? (u32)list : nodes[list].next;

	folio->list = (u8)list;
	folio->prev = before;
	folio->next = after;
	nodes[before].next = number;
	nodes[after].prev = number;
	cx_self->len[list]++;
}

static __always_inline u64 bpf_cache_ext_list_create(struct mem_cgroup *memcg)
{
	(void)memcg;
	if (cx_self->nr_lists + 1 >= CX_LISTS)
		return 0;
	return ++cx_self->nr_lists;
}

static __always_inline int bpf_cache_ext_list_add(u64 list, struct folio *folio, bool tail)
{
	if (unlikely(folio->list))
		return -EEXIST;
	cx_link(list, folio, tail);
	return 0;
}

static __always_inline int bpf_cache_ext_list_move(u64 list, struct folio *folio, bool tail)
{
	if (unlikely(!folio->list))
		return -ENOENT;
	cx_unlink(folio);
	cx_link(list, folio, tail);
	return 0;
}

static __always_inline int bpf_cache_ext_list_del(struct folio *folio)
{
	if (unlikely(!folio->list))
		return -ENOENT;
	cx_unlink(folio);
	folio->list = 0;
	return 0;
}

static __always_inline u64 bpf_cache_ext_list_len(u64 list)
{
	return cx_self->len[list];
}

static __always_inline u64 bpf_cache_ext_folio_list(const struct folio *folio)
{
	return folio->list;
}

static __always_inline void cx_propose(struct cache_ext_eviction_ctx *ctx, struct folio *folio)
{
	if (unlikely(folio->flags & CX_PROPOSED))
		return;
	folio->flags |= CX_PROPOSED;
	ctx->nodes[ctx->nr_proposed++] = cx_number(folio);
}

static __always_inline int bpf_cache_ext_propose(struct cache_ext_eviction_ctx *ctx,
						 struct folio *folio)
{
	if (ctx->nr_proposed >= ctx->nr_requested)
		return -ENOSPC;
	if (folio->flags & CX_PROPOSED)
		return -EALREADY;
	cx_propose(ctx, folio);
	return 0;
}

typedef s64 (*cx_iter_fn)(struct folio *folio, void *data);

static __always_inline int cx_iterate_simple(u64 list, struct cache_ext_eviction_ctx *ctx,
					     cx_iter_fn fn, void *data,
					     const struct cache_ext_iter_opts *opts)
{
	struct folio *nodes = cx_self->nodes;
	u64 left = cx_self->len[list];
	u32 number = opts->from_tail ? nodes[list].prev : nodes[list].next;
	int seen = 0;

	if (opts->max_scan && opts->max_scan < left)
		left = opts->max_scan;
	while (left-- && ctx->nr_proposed < ctx->nr_requested) {
		struct folio *folio = &nodes[number];

		number = opts->from_tail ? folio->prev : folio->next;
		__builtin_prefetch(&nodes[number]);
		seen++;
		switch (fn(folio, data)) {
		case CACHE_EXT_ROTATE:
			cx_unlink(folio);
			cx_link(list, folio, true);
			break;
		case CACHE_EXT_MOVE:
			cx_unlink(folio);
			cx_link(opts->target_list, folio, true);
			break;
		case CACHE_EXT_EVICT:
			cx_propose(ctx, folio);
			break;
		case CACHE_EXT_STOP:
			return seen;
		default:
			break;
		}
	}
	return seen;
}

struct cx_scored {
	s64 score;
	u32 order;
	u32 number;
};

static __always_inline bool cx_scored_before(const struct cx_scored *a, const struct cx_scored *b)
{
	return a->score < b->score || (a->score == b->score && a->order < b->order);
}

/* Restore the max-heap of the lowest scores after its element at `at` was replaced. */
static __always_inline void cx_sift_down(struct cx_scored *heap, u32 len, u32 at)
{
	struct cx_scored moving = heap[at];

	for (;;) {
		u32 child = 2 * at + 1;

		if (child >= len)
			break;
		if (child + 1 < len && cx_scored_before(&heap[child], &heap[child + 1]))
			child++;
		if (!cx_scored_before(&moving, &heap[child]))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

/* Move the first `count` folios of the list, of which `last` is the last one, to the tail. */
static __always_inline void cx_rotate_chain(u64 list, u32 last, u64 count)
{
	struct folio *nodes = cx_self->nodes;
	u32 first = nodes[list].next;
	u32 old_tail = nodes[list].prev;

	if (count >= cx_self->len[list])
		return;
	nodes[list].next = nodes[last].next;
	nodes[nodes[last].next].prev = (u32)list;
	nodes[old_tail].next = first;
	nodes[first].prev = old_tail;
	nodes[last].next = (u32)list;
	nodes[list].prev = last;
}

static __always_inline int cx_iterate_score(u64 list, struct cache_ext_eviction_ctx *ctx,
					    cx_iter_fn fn, void *data,
					    const struct cache_ext_iter_opts *opts)
{
	struct cx_scored heap[CACHE_EXT_MAX_CANDIDATES];
	struct folio *nodes = cx_self->nodes;
	u64 scan = cx_self->len[list];
	u64 want = ctx->nr_requested - ctx->nr_proposed;
	u64 bound = opts->max_scan && opts->max_scan < CACHE_EXT_MAX_BATCH ? opts->max_scan
									   : CACHE_EXT_MAX_BATCH;
	u32 number = (u32)list;
	u32 len = 0;

	if (scan > bound)
		scan = bound;
	if (!scan || !want)
		return 0;
	for (u64 i = 0; i < scan; i++) {
		struct cx_scored entry;

		number = nodes[number].next;
		__builtin_prefetch(&nodes[nodes[number].next]);
		if (unlikely(nodes[number].flags & CX_PROPOSED))
			continue;
		entry = (struct cx_scored){fn(&nodes[number], data), (u32)i, number};
		if (len < want) {
			heap[len++] = entry;
			for (u32 at = len / 2; len == want && at-- > 0;)
				cx_sift_down(heap, len, at);
		} else if (cx_scored_before(&entry, &heap[0])) {
			heap[0] = entry;
			cx_sift_down(heap, len, 0);
		}
	}
	cx_rotate_chain(list, number, scan);
	for (u32 i = 0; i < len; i++)
		cx_propose(ctx, &nodes[heap[i].number]);
	return (int)scan;
}

/* Inlined into each call, so that the compiler knows the callback and the mode. */
static __always_inline int bpf_cache_ext_list_iterate(u64 list, struct cache_ext_eviction_ctx *ctx,
						      cx_iter_fn fn, void *data,
						      const struct cache_ext_iter_opts *opts)
{
	if (opts->mode == CACHE_EXT_ITER_SCORE)
		return cx_iterate_score(list, ctx, fn, data, opts);
	return cx_iterate_simple(list, ctx, fn, data, opts);
}

#endif
