/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A readahead policy that writes to a read-only field of the context. The verifier must reject it.
 */
#include "prefetch.bpf.h"

CACHE_EXT_HOOK(s32, overwriting_decide_window, struct cache_ext_window_ctx *window)
{
	window->file_pages = ~0ull;
	return 0;
}

CACHE_EXT_PREFETCH_OPS(overwriting, .decide_window = HOOK(overwriting_decide_window));
