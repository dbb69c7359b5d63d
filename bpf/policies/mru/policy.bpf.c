/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* MRU: one list in order of the last access, evicted from its tail. */
#include "cache_ext.bpf.h"

struct mru_state {
	u64 pages;
};

/* Most folios that are spared because readahead brought them and nobody used them yet. */
#define SPARED_UNUSED 128

struct newest {
	u64 left_to_spare;
	u64 unused_to_spare;
	bool spare_mapped;
};

POLICY_STATE(struct mru_state);

CACHE_EXT_HOOK(s32, mru_init, struct mem_cgroup *memcg)
{
	STATE->pages = bpf_cache_ext_list_create(memcg);
	return STATE->pages ? 0 : -ENOMEM;
}

CACHE_EXT_HOOK(void, mru_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->pages, folio, true);
}

CACHE_EXT_HOOK(void, mru_folio_accessed, struct folio *folio, bool first)
{
	if (!first)
		bpf_cache_ext_list_move(STATE->pages, folio, true);
}

/*
 * The newest pages are those that may still be under way, or wait to be used. They stay where they
 * are: refused, they would be proposed first again, and the kernel would take the oldest instead.
 */
static s64 spare_newest(struct folio *folio, void *data)
{
	struct newest *newest = data;

	if (cache_ext_folio_is_busy(folio))
		return CACHE_EXT_KEEP;
	if (newest->spare_mapped && cache_ext_folio_is_mapped(folio))
		return CACHE_EXT_KEEP;
	if (newest->unused_to_spare && cache_ext_folio_is_unused(folio)) {
		newest->unused_to_spare--;
		return CACHE_EXT_KEEP;
	}
	if (!newest->left_to_spare)
		return CACHE_EXT_EVICT;
	newest->left_to_spare--;
	return CACHE_EXT_KEEP;
}

/* Half of the list at most is spared: a cgroup that shrank must still find candidates. */
CACHE_EXT_HOOK(void, mru_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE, .from_tail = true};
	struct newest newest = {.left_to_spare = TUNABLE(spared_pages),
				.unused_to_spare = SPARED_UNUSED,
				.spare_mapped = true};
	u64 half = bpf_cache_ext_list_len(STATE->pages) / 2;

	if (newest.left_to_spare > half)
		newest.left_to_spare = half;
	if (newest.unused_to_spare > half / 2)
		newest.unused_to_spare = half / 2;
	bpf_cache_ext_list_iterate(STATE->pages, request, spare_newest, &newest, &opts);
	/* Programs are in use all the time: they go when nothing else is left. */
	newest.spare_mapped = false;
	if (request->nr_proposed < request->nr_requested)
		bpf_cache_ext_list_iterate(STATE->pages, request, spare_newest, &newest, &opts);
}

CACHE_EXT_OPS(mru, .init = HOOK(mru_init), .evict_folios = HOOK(mru_evict_folios),
	      .folio_added = HOOK(mru_folio_added), .folio_accessed = HOOK(mru_folio_accessed));
