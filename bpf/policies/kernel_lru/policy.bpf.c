/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's active and inactive file lists with refault distances. The head of a list is its
 * oldest page.
 *
 * In simulation this code is also the layer below policies without evict_folios
 * (bpf/include/native/layer.h). It is then compiled in one unit with their code, so all its names
 * contain kernel_lru, or klru for short.
 */
#include "cache_ext.bpf.h"

#define KLRU_DEF_PRIORITY 12
#define KLRU_CLUSTER_PAGES 32
#define KLRU_GIGABYTE_PAGES 262144
#define KLRU_MAX_GIGABYTES 65536

/*
 * Steps by which the non-resident age advances per capacity. A ghost value has room for several
 * capacities of age before it wraps.
 */
#define KLRU_AGE_STEPS_SHIFT 13
#define KLRU_AGE_MASK 0xffff

/* Fractional bits of scan_credit, the active pages still to be scanned. */
#define KLRU_CREDIT_SHIFT 10

/*
 * The list sizes that reclaim sees. They can be out of date, because the kernel flushes these
 * statistics every two seconds.
 */
struct klru_seen {
	u64 inactive;
	u64 active;
	u64 refaults;
};

struct kernel_lru_state {
	u64 inactive;
	u64 active;
	u64 shadows;
	u64 age;	  /* age of non-resident pages, in steps */
	u64 age_fraction; /* pages towards the next step */
	u64 refaults;	  /* refaults that activated their page */
	u64 refaults_snapshot;
	u64 scan_credit;
	u64 accesses;
	u64 seen_at;
	struct klru_seen seen;
};

struct kernel_lru_folio {
	u8 referenced;
};

POLICY_STATE(struct kernel_lru_state);
POLICY_FOLIO_STATE(struct kernel_lru_folio);

CACHE_EXT_HOOK(s32, kernel_lru_init, struct mem_cgroup *memcg)
{
	STATE->inactive = bpf_cache_ext_list_create(memcg);
	STATE->active = bpf_cache_ext_list_create(memcg);
	STATE->shadows = bpf_cache_ext_ghost_create(memcg, 100);
	return STATE->inactive && STATE->active && STATE->shadows ? 0 : -ENOMEM;
}

static struct klru_seen *klru_statistics(void)
{
	if (STATE->accesses - STATE->seen_at >= TUNABLE(stats_interval)) {
		STATE->seen_at = STATE->accesses;
		STATE->seen.inactive = bpf_cache_ext_list_len(STATE->inactive);
		STATE->seen.active = bpf_cache_ext_list_len(STATE->active);
		STATE->seen.refaults = STATE->refaults;
	}
	return &STATE->seen;
}

static u64 klru_age_step_pages(void)
{
	u64 pages = bpf_cache_ext_capacity(STATE->inactive) >> KLRU_AGE_STEPS_SHIFT;

	return pages ? pages : 1;
}

/* workingset_age_nonresident() */
static void klru_age_nonresident(u64 pages)
{
	u64 step = klru_age_step_pages();

	STATE->age_fraction += pages;
	while (STATE->age_fraction >= step) {
		STATE->age_fraction -= step;
		STATE->age++;
	}
}

/* workingset_refault() */
static bool klru_refaults_near(struct folio *folio)
{
	s64 shadow = bpf_cache_ext_ghost_take(STATE->shadows, folio);
	u64 distance = (STATE->age - (u64)shadow) & KLRU_AGE_MASK;

	return shadow >= 0 && distance * klru_age_step_pages() <= klru_statistics()->active;
}

CACHE_EXT_HOOK(void, kernel_lru_folio_added, struct folio *folio)
{
	if (!klru_refaults_near(folio)) {
		bpf_cache_ext_list_add(STATE->inactive, folio, true);
		return;
	}
	bpf_cache_ext_list_add(STATE->active, folio, true);
	STATE->refaults++;
	klru_age_nonresident(cache_ext_folio_pages(folio));
}

/* folio_mark_accessed(), which the read that brought the folio in calls too */
CACHE_EXT_HOOK(void, kernel_lru_folio_accessed, struct folio *folio, bool first)
{
	struct kernel_lru_folio *state = FOLIO_STATE(folio);

	STATE->accesses++;
	if (!state)
		return;
	if (!state->referenced) {
		state->referenced = 1;
	} else if (bpf_cache_ext_folio_list(folio) == STATE->inactive) {
		bpf_cache_ext_list_move(STATE->active, folio, true);
		state->referenced = 0;
		klru_age_nonresident(cache_ext_folio_pages(folio));
	}
}

/* workingset_eviction() */
CACHE_EXT_HOOK(void, kernel_lru_folio_removed, struct folio *folio, bool evicted)
{
	if (!evicted)
		return;
	bpf_cache_ext_ghost_add(STATE->shadows, folio, STATE->age & KLRU_AGE_MASK);
	klru_age_nonresident(cache_ext_folio_pages(folio));
}

static u64 klru_square_root(u64 x)
{
	u64 root = 0;

	for (u64 bit = 1 << 10; bit; bit >>= 1)
		if ((root + bit) * (root + bit) <= x)
			root += bit;
	return root;
}

/* inactive_is_low() */
static bool klru_inactive_is_low(const struct klru_seen *seen)
{
	u64 unit = TUNABLE(gigabyte_pages);
	u64 gigabytes = unit ? (seen->inactive + seen->active) / unit : 0;
	u64 ratio = 1;

	if (gigabytes)
		ratio = klru_square_root(
			10 * (gigabytes < KLRU_MAX_GIGABYTES ? gigabytes : KLRU_MAX_GIGABYTES));
	return seen->inactive * ratio < seen->active;
}

/*
 * get_scan_count() and shrink_lruvec(): the priority falls, and the scanned share of both lists
 * doubles with each step, until a cluster of pages is reclaimed. Returns the number of active pages
 * that this scans while it reclaims `pages`, in the proportions of lists at the scale of
 * gigabyte_pages.
 */
static u64 klru_active_scan_pages(u64 pages)
{
	u64 unit = TUNABLE(gigabyte_pages);
	u64 inactive = bpf_cache_ext_list_len(STATE->inactive) * KLRU_GIGABYTE_PAGES;
	u64 active = bpf_cache_ext_list_len(STATE->active) * KLRU_GIGABYTE_PAGES;
	u64 inactive_scanned = 0, active_scanned = 0;

	inactive = unit ? inactive / unit : 0;
	active = unit ? active / unit : 0;
	for (int shift = KLRU_DEF_PRIORITY; shift >= 0; shift--) {
		u64 share = active >> shift;

		if (inactive >> shift >= KLRU_CLUSTER_PAGES) {
			inactive_scanned += KLRU_CLUSTER_PAGES;
			active_scanned += share < KLRU_CLUSTER_PAGES ? share : KLRU_CLUSTER_PAGES;
			break;
		}
		inactive_scanned += inactive >> shift;
		active_scanned += share;
		if (inactive_scanned >= KLRU_CLUSTER_PAGES)
			break;
	}
	if (!inactive_scanned)
		return pages;
	STATE->scan_credit += ((pages * active_scanned) << KLRU_CREDIT_SHIFT) / inactive_scanned;
	pages = STATE->scan_credit >> KLRU_CREDIT_SHIFT;
	STATE->scan_credit -= pages << KLRU_CREDIT_SHIFT;
	return pages;
}

static s64 klru_deactivate(struct folio *folio, void *data)
{
	return CACHE_EXT_MOVE;
}

/* shrink_active_list(): unmapped folios keep their referenced flag */
static void klru_shrink_active(struct cache_ext_eviction_ctx *request, u64 pages)
{
	struct cache_ext_iter_opts opts = {
		.mode = CACHE_EXT_ITER_SIMPLE,
		.max_scan = (u32)pages,
		.target_list = STATE->inactive,
	};

	if (opts.max_scan)
		bpf_cache_ext_list_iterate(STATE->active, request, klru_deactivate, NULL, &opts);
}

static s64 klru_reclaim(struct folio *folio, void *data)
{
	return CACHE_EXT_EVICT;
}

/* shrink_inactive_list(): folio_check_references() reclaims clean unmapped folios in any case */
static void klru_shrink_inactive(struct cache_ext_eviction_ctx *request)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	bpf_cache_ext_list_iterate(STATE->inactive, request, klru_reclaim, NULL, &opts);
}

/*
 * The active list is scanned first because an iteration ends when the request is satisfied. The
 * order makes no difference to the pages: deactivated pages join the tail of the inactive list, and
 * eviction takes its head.
 */
CACHE_EXT_HOOK(void, kernel_lru_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	const struct klru_seen *seen = klru_statistics();
	u64 pages = request->nr_requested;

	if (seen->refaults != STATE->refaults_snapshot || klru_inactive_is_low(seen))
		klru_shrink_active(request, klru_active_scan_pages(pages));
	klru_shrink_inactive(request);
	if (!request->nr_proposed) { /* force_deactivate of do_try_to_free_pages() */
		klru_shrink_active(request, pages);
		klru_shrink_inactive(request);
	}
	STATE->refaults_snapshot = seen->refaults;
}

CACHE_EXT_OPS(kernel_lru, .init = HOOK(kernel_lru_init),
	      .evict_folios = HOOK(kernel_lru_evict_folios),
	      .folio_added = HOOK(kernel_lru_folio_added),
	      .folio_accessed = HOOK(kernel_lru_folio_accessed),
	      .folio_removed = HOOK(kernel_lru_folio_removed));
