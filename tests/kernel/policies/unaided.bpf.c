/* SPDX-License-Identifier: Apache-2.0 */
/* Counts events in hooks that call no kernel function, and leaves eviction to the kernel. */
#include "test_policy.h"

/* tests/kernel/guest/src/cases/counted.rs declares the same layout. */
struct unaided_state {
	u64 added;
	u64 first;
	u64 accesses;
	u64 removed;
	u64 evicted;
	u64 counted_folio; /* the folio of the last call of folio_counted */
	u64 told_in_order; /* removals right after folio_counted of the same folio */
};

POLICY_STATE(struct unaided_state);

CACHE_EXT_HOOK(void, unaided_folio_added, struct folio *folio)
{
	cache_ext_add(&STATE->added, 1);
}

CACHE_EXT_HOOK(void, unaided_folio_accessed, struct folio *folio, bool first)
{
	/* Only first accesses are expected here. The large number makes a re-reference visible. */
	cache_ext_add(&STATE->first, first ? 1 : 1 << 20);
}

CACHE_EXT_HOOK(void, unaided_folio_counted, struct folio *folio, u32 accesses)
{
	cache_ext_add(&STATE->accesses, accesses);
	STATE->counted_folio = (u64)folio;
}

CACHE_EXT_HOOK(void, unaided_folio_removed, struct folio *folio, bool evicted)
{
	cache_ext_add(evicted ? &STATE->evicted : &STATE->removed, 1);
	if (STATE->counted_folio == (u64)folio)
		cache_ext_add(&STATE->told_in_order, 1);
}

CACHE_EXT_OPS(unaided, .folio_added = HOOK(unaided_folio_added),
	      .folio_accessed = HOOK(unaided_folio_accessed),
	      .folio_removed = HOOK(unaided_folio_removed),
	      .folio_counted = HOOK(unaided_folio_counted));
