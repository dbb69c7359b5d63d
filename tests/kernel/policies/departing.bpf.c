/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts additions and removals. Of these hooks only folio_removed calls a function that needs the
 * folio's record.
 */
#include "test_policy.h"

/* tests/kernel/guest/src/cases/hooks_removal.rs declares the same layout. */
struct departing_state {
	u64 added;
	u64 removed;
	u64 pages;
};

POLICY_STATE(struct departing_state);

CACHE_EXT_HOOK(void, departing_folio_added, struct folio *folio)
{
	cache_ext_add(&STATE->added, 1);
}

CACHE_EXT_HOOK(void, departing_folio_removed, struct folio *folio, bool evicted)
{
	cache_ext_add(&STATE->removed, 1);
	cache_ext_add(&STATE->pages, cache_ext_folio_pages(folio));
}

CACHE_EXT_OPS(departing, .folio_added = HOOK(departing_folio_added),
	      .folio_removed = HOOK(departing_folio_removed));
