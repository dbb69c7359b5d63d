/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A readahead policy that passes stack memory as the context of a decision. The verifier must
 * reject it.
 */
#include "prefetch.bpf.h"

CACHE_EXT_HOOK(s32, forged_window_decide_window, struct cache_ext_window_ctx *window)
{
	struct cache_ext_window_ctx own = {.index = 1};

	return bpf_cache_ext_cached_before(&own) != 0;
}

CACHE_EXT_PREFETCH_OPS(forged_window, .decide_window = HOOK(forged_window_decide_window));
