/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A model of the kernel's own on-demand readahead. The window starts with the read and grows at
 * each mark up to the maximum. Random reads are not extended.
 */
#include "prefetch.bpf.h"

static u64 power_of_two_from(u64 value)
{
	u64 power = 1;

	for (int i = 0; i < 32 && power < value; i++)
		power *= 2;
	return power;
}

/* The size of the first window of a stream. */
static u64 first_size(u64 wanted, u64 max)
{
	u64 size = power_of_two_from(wanted);

	if (size <= max / 32)
		return size * 4;
	return size <= max / 4 ? size * 2 : max;
}

/* The size of the window after one of `size` pages. */
static u64 next_size(u64 size, u64 max)
{
	if (size < max / 16)
		return size * 4;
	return size <= max / 2 ? size * 2 : max;
}

static s32 set_window(struct cache_ext_window_ctx *window, u64 start, u64 size, u64 async_size)
{
	window->start = start;
	window->size = size;
	window->async_size = async_size;
	return 1;
}

static s32 at_miss(struct cache_ext_window_ctx *window)
{
	u64 max = window->max_pages, wanted = window->nr_wanted;
	u64 index = window->index, before, size;

	/* The start of a file, a large read, or a read that continues the last one. */
	if (!index || wanted > max || index - window->prev_index <= 1) {
		size = first_size(wanted, max);
		return set_window(window, index, size, size > wanted ? size - wanted : size / 2);
	}
	before = bpf_cache_ext_cached_before(window);
	if (before <= wanted)
		return set_window(window, index, 0, 0);
	/* Cached from the start of the file: this stream, or another one, has read all of it. */
	if (before == index)
		before *= 2;
	size = before + wanted < max ? before + wanted : max;
	return set_window(window, index, size, 1);
}

static s32 at_mark(struct cache_ext_window_ctx *window)
{
	u64 mark = window->last_start + window->last_size - window->last_async_size;
	u64 max = window->max_pages, start, size;

	if (window->index == (mark & ~(window->folio_pages - 1))) {
		size = next_size(window->last_size, max);
		if (size < window->last_size)
			size = window->last_size;
		return set_window(window, window->last_start + window->last_size, size, size);
	}
	/*
	 * The mark belongs to another stream of the open file. The cached pages behind it are its
	 * window.
	 */
	start = window->index + 1 + bpf_cache_ext_cached_after(window);
	if (start - window->index > max)
		return set_window(window, window->index, 0, 0);
	size = next_size(start - window->index + window->nr_wanted, max);
	return set_window(window, start, size, size);
}

/* Faults are left to the kernel, which reads around them until too many of them miss. */
CACHE_EXT_HOOK(s32, linux_decide_window, struct cache_ext_window_ctx *window)
{
	switch (window->trigger) {
	case CACHE_EXT_TRIGGER_MISS:
		return at_miss(window);
	case CACHE_EXT_TRIGGER_MARK:
		return at_mark(window);
	default:
		return 0;
	}
}

CACHE_EXT_PREFETCH_OPS(linux, .decide_window = HOOK(linux_decide_window));
