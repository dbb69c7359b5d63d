/* SPDX-License-Identifier: Apache-2.0 */
/* An admission filter and nothing else: eviction is the kernel's. */
#include "test_policy.h"

/* Known to tests/kernel/guest/src/cases/filtering.rs. */
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
