/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts accesses and leaves eviction to the kernel. It needs no init, because it creates no lists.
 */
#include "test_policy.h"

/* tests/kernel/guest/src/cases/filtering.rs declares the same layout. */
struct observing_state {
	u64 first;
	u64 again;
};

POLICY_STATE(struct observing_state);

CACHE_EXT_HOOK(void, observing_folio_accessed, struct folio *folio, bool first)
{
	cache_ext_add(first ? &STATE->first : &STATE->again, 1);
}

CACHE_EXT_OPS(observing, .folio_accessed = HOOK(observing_folio_accessed));
