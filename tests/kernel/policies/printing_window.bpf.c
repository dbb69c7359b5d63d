/* SPDX-License-Identifier: Apache-2.0 */
/* A readahead policy that prints. The verifier must reject it. */
#include "prefetch.bpf.h"

CACHE_EXT_HOOK(s32, printing_window_decide_window, struct cache_ext_window_ctx *window)
{
	char format[] = "asked\n";

	bpf_trace_printk(format, sizeof(format));
	return 0;
}

CACHE_EXT_PREFETCH_OPS(printing_window, .decide_window = HOOK(printing_window_decide_window));
