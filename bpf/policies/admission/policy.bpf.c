/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Admission filter: LRU over the pages that tasks outside a list bring in. */
#include "cache_ext.bpf.h"

/* Elements of filtered_tasks in policy.toml. */
#define FILTERED_TASKS 16

struct admission_state {
	u64 pages;
};

POLICY_STATE(struct admission_state);

CACHE_EXT_HOOK(s32, admission_init, struct mem_cgroup *memcg)
{
	STATE->pages = bpf_cache_ext_list_create(memcg);
	return STATE->pages ? 0 : -ENOMEM;
}

/* A task id of 0 is no task: neither a listed one nor one that is known. */
CACHE_EXT_HOOK(bool, admission_admit_folio, u64 page_key)
{
	u32 task = cache_ext_current_task();

	if (!task)
		return true;
	for (int i = 0; i < FILTERED_TASKS; i++)
		if (TUNABLE(filtered_tasks)[i] == task)
			return false;
	return true;
}

CACHE_EXT_HOOK(void, admission_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->pages, folio, true);
}

CACHE_EXT_HOOK(void, admission_folio_accessed, struct folio *folio, bool first)
{
	if (!first)
		bpf_cache_ext_list_move(STATE->pages, folio, true);
}

static s64 evict_oldest(struct folio *folio, void *data)
{
	return CACHE_EXT_EVICT;
}

CACHE_EXT_HOOK(void, admission_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	bpf_cache_ext_list_iterate(STATE->pages, request, evict_oldest, NULL, &opts);
}

CACHE_EXT_OPS(admission, .init = HOOK(admission_init), .evict_folios = HOOK(admission_evict_folios),
	      .folio_added = HOOK(admission_folio_added),
	      .folio_accessed = HOOK(admission_folio_accessed),
	      .admit_folio = HOOK(admission_admit_folio));
