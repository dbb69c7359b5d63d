/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A readahead policy that passes a map value as the context of a decision. The verifier must reject
 * it.
 */
#include "prefetch.bpf.h"

/* The context, followed by forged values for the fields that the kernel keeps behind its own. */
struct forged_value_state {
	struct cache_ext_window_ctx window;
	u64 behind[2];
};

POLICY_STATE(struct forged_value_state);

CACHE_EXT_HOOK(s32, forged_value_decide_window, struct cache_ext_window_ctx *window)
{
	return 0;
}

CACHE_EXT_HOOK(void, forged_value_page_used, u64 file, u64 index)
{
	bpf_cache_ext_prefetch(&STATE->window, 0, 1);
}

CACHE_EXT_PREFETCH_OPS(forged_value, .decide_window = HOOK(forged_value_decide_window),
		       .page_used = HOOK(forged_value_page_used));
