/* SPDX-License-Identifier: Apache-2.0 */
/* An admission filter without other hooks. The kernel evicts. */
#include "test_policy.h"

/* tests/kernel/guest/src/cases/filtering.rs declares the same layout. */
struct filtering_state {
	u64 refuse;
	u64 asked;
	u64 capacity;
};

POLICY_STATE(struct filtering_state);

CACHE_EXT_HOOK(bool, filtering_admit_folio, u64 page_key)
{
	cache_ext_add(&STATE->asked, 1);
	STATE->capacity = bpf_cache_ext_capacity(0);
	return !STATE->refuse;
}

CACHE_EXT_OPS(filtering, .admit_folio = HOOK(filtering_admit_folio));
