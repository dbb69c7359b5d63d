/* SPDX-License-Identifier: Apache-2.0 */
/* A readahead policy that sets the window that user space asks for, and records each decision. */
#include "prefetch.bpf.h"

#define NOTES 256
#define MOST_REQUESTS 100

/* tests/kernel/guest/src/windowing.rs declares the same layout. */
struct windowing_state {
	u64 decides;	     /* 0: leave decisions to the kernel */
	u64 from_file_start; /* not 0: start is a page of the file, not relative to index */
	u64 start;
	u64 size;
	u64 async_size;
	u64 stride;
	u64 times;
	u64 asked[4]; /* number of decisions, by trigger */
	u64 noted;
	u64 notes[NOTES];  /* window->index of the decisions */
	u64 before, after; /* cached pages before and after the last one */
	u64 used;	   /* pages that were read ahead and then accessed */
	u64 queue_start;   /* range to request in addition to the window */
	u64 queue_size;
	u64 queue_times;
	u64 queued; /* requests that were accepted */
};

POLICY_STATE(struct windowing_state);

CACHE_EXT_HOOK(s32, windowing_decide_window, struct cache_ext_window_ctx *window)
{
	cache_ext_add(&STATE->asked[window->trigger & 3], 1);
	STATE->notes[STATE->noted++ & (NOTES - 1)] = window->index;
	STATE->before = bpf_cache_ext_cached_before(window);
	STATE->after = bpf_cache_ext_cached_after(window);
	for (u64 i = 0; i < MOST_REQUESTS && i < STATE->queue_times; i++)
		if (!bpf_cache_ext_prefetch(window, STATE->queue_start, STATE->queue_size))
			STATE->queued++;
	if (!STATE->decides)
		return 0;
	window->start = STATE->start + (STATE->from_file_start ? 0 : window->index);
	window->size = STATE->size;
	window->async_size = STATE->async_size;
	window->stride = STATE->stride;
	window->times = STATE->times;
	return 1;
}

CACHE_EXT_HOOK(void, windowing_page_used, u64 file, u64 index)
{
	cache_ext_add(&STATE->used, 1);
}

CACHE_EXT_PREFETCH_OPS(windowing, .decide_window = HOOK(windowing_decide_window),
		       .page_used = HOOK(windowing_page_used));
