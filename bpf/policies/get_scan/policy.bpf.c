/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GET-SCAN: LFU over two lists. The list that scan tasks fill is evicted first. */
#include "cache_ext.bpf.h"

/* Number of elements of scan_tasks in policy.toml. */
#define SCAN_TASKS 16

/*
 * Pages that readahead brought in for scans and that were never read are evicted before the get
 * list if they exceed 1 / ARRIVING_SHARE of the capacity.
 */
#define ARRIVING_SHARE 8

struct get_scan_state {
	u64 get;
	u64 scan;
	u64 arriving; /* added for a scan and not read yet */
};

struct get_scan_folio {
	u32 accesses;
};

POLICY_STATE(struct get_scan_state);
POLICY_FOLIO_STATE(struct get_scan_folio);

CACHE_EXT_HOOK(s32, get_scan_init, struct mem_cgroup *memcg)
{
	STATE->get = bpf_cache_ext_list_create(memcg);
	STATE->scan = bpf_cache_ext_list_create(memcg);
	STATE->arriving = bpf_cache_ext_list_create(memcg);
	return STATE->get && STATE->scan && STATE->arriving ? 0 : -ENOMEM;
}

/* An id of 0 marks an unused element of scan_tasks, and a task that is not known. */
static bool current_task_scans(void)
{
	u32 task = cache_ext_current_task();

	if (!task)
		return false;
	for (int i = 0; i < SCAN_TASKS; i++)
		if (TUNABLE(scan_tasks)[i] == task)
			return true;
	return false;
}

CACHE_EXT_HOOK(void, get_scan_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(current_task_scans() ? STATE->arriving : STATE->get, folio, true);
}

CACHE_EXT_HOOK(void, get_scan_folio_accessed, struct folio *folio, bool first)
{
	struct get_scan_folio *state = FOLIO_STATE(folio);

	if (state && state->accesses != ~0u)
		state->accesses++;
	if (first && bpf_cache_ext_folio_list(folio) == STATE->arriving)
		bpf_cache_ext_list_move(STATE->scan, folio, true);
}

static s64 frequency(struct folio *folio, void *data)
{
	struct get_scan_folio *state = FOLIO_STATE(folio);

	return state ? state->accesses : 0;
}

static void evict_from(u64 list, struct cache_ext_eviction_ctx *request)
{
	u64 missing = request->nr_requested - request->nr_proposed;
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SCORE,
		.max_scan = cache_ext_scan_pages(list, missing, TUNABLE(pages_per_candidate)),
	};

	bpf_cache_ext_list_iterate(list, request, frequency, NULL, &opts);
}

CACHE_EXT_HOOK(void, get_scan_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	u64 arriving = bpf_cache_ext_list_len(STATE->arriving);
	u64 most = bpf_cache_ext_capacity(STATE->arriving) / ARRIVING_SHARE;

	evict_from(STATE->scan, request);
	if (request->nr_proposed < request->nr_requested && arriving > most)
		evict_from(STATE->arriving, request);
	if (request->nr_proposed < request->nr_requested)
		evict_from(STATE->get, request);
	if (request->nr_proposed < request->nr_requested)
		evict_from(STATE->arriving, request);
}

CACHE_EXT_OPS(get_scan, .init = HOOK(get_scan_init), .evict_folios = HOOK(get_scan_evict_folios),
	      .folio_added = HOOK(get_scan_folio_added),
	      .folio_accessed = HOOK(get_scan_folio_accessed));
