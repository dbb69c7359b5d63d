/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* MRU: one list in the order of the last access, evicted from its tail. */
#include "cache_ext.bpf.h"

struct mru_state {
	u64 pages;
};

/*
 * Maximum number of folios that are spared because readahead brought them in and no access
 * followed.
 */
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
 * The newest pages may still be under I/O, or read ahead and not used yet. They stay where they
 * are. If they were proposed and refused, they would be proposed first again, and the kernel would
 * evict the oldest pages instead.
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

/*
 * At most half of the list is spared as newest, and a quarter as unused, so that candidates remain
 * when the cgroup has shrunk.
 */
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
	/*
	 * Mapped pages, such as those of programs, are in use all the time. They are evicted last.
	 */
	newest.spare_mapped = false;
	if (request->nr_proposed < request->nr_requested)
		bpf_cache_ext_list_iterate(STATE->pages, request, spare_newest, &newest, &opts);
}

CACHE_EXT_OPS(mru, .init = HOOK(mru_init), .evict_folios = HOOK(mru_evict_folios),
	      .folio_added = HOOK(mru_folio_added), .folio_accessed = HOOK(mru_folio_accessed));
