/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Leap: predicts that the next reads of a thread continue at the distance that the majority of its
 * last reads had. The number of pages read ahead follows the number of earlier ones that were used.
 * Until a majority was found, nothing is read ahead.
 */
#include "prefetch.bpf.h"

#define HISTORY 32
#define SLOTS 64

/* The reads of one file by one thread. */
struct history {
	u64 key;
	u64 last;		/* page in which the last access ended */
	s64 trend;		/* the last majority distance; 0: none so far */
	u32 count;		/* distances recorded so far */
	u32 hits;		/* pages read ahead and used since the last decision */
	u32 window;		/* pages of the last decision */
	s64 distances[HISTORY]; /* the newest is at (count - 1) % HISTORY */
};

struct leap_state {
	struct history histories[SLOTS];
};

POLICY_STATE(struct leap_state);

static struct history *history_of(u64 file)
{
	u64 key = file ^ (u64)cache_ext_current_task() * 0x9e3779b97f4a7c15ull;
	struct history *history = &STATE->histories[key % SLOTS];

	if (history->key != key) {
		history->key = key;
		history->last = ~0ull;
		history->trend = 0;
		history->count = 0;
		history->hits = 0;
		history->window = 0;
	}
	return history;
}

/* Record an access to the pages from `index` to `last`. */
static void record(struct history *history, u64 index, u64 last)
{
	if (history->last != ~0ull) {
		history->distances[history->count % HISTORY] = index - history->last;
		history->count++;
	}
	history->last = last;
}

static s64 distance_at(const struct history *history, u32 age)
{
	return history->distances[(history->count - 1 - age) % HISTORY];
}

/* How many of the newest `length` distances equal `distance`. */
static u32 count_of(const struct history *history, s64 distance, u32 length)
{
	u32 count = cache_ext_zero();

	for (u32 age = 0; age < HISTORY && age < length; age++)
		count += distance_at(history, age) == distance;
	return count;
}

/*
 * The distance that more than half of the newest 4, 8, 16 or 32 distances have, for the shortest of
 * these lengths that has such a majority; 0 if none has. The candidates come from Boyer and Moore's
 * majority vote, which continues from one length to the next.
 */
static s64 find_trend(const struct history *history)
{
	u32 votes = cache_ext_zero(), length = 4;
	s64 candidate = 0;

	for (u32 age = 0; age < HISTORY && age < history->count; age++) {
		s64 distance = distance_at(history, age);

		if (!votes)
			candidate = distance;
		if (distance == candidate)
			votes++;
		else
			votes--;
		if (age + 1 < length)
			continue;
		if (count_of(history, candidate, length) > length / 2)
			return candidate;
		length *= 2;
	}
	return 0;
}

static u32 power_of_two_from(u32 value, u32 most)
{
	u32 power = 1;

	for (int i = 0; i < 8 && power < value; i++)
		power *= 2;
	return power < most ? power : most;
}

/*
 * Number of pages to read ahead: by the number of pages that were used, and at least half of the
 * last window.
 */
static u32 next_window(const struct history *history, bool follows)
{
	u32 window = follows;

	if (history->hits)
		window = power_of_two_from(history->hits + 1, TUNABLE(max_window));
	if (window < history->window / 2)
		window = history->window / 2;
	return window;
}

CACHE_EXT_HOOK(void, leap_page_used, u64 file, u64 index)
{
	struct history *history = history_of(file);

	record(history, index, index);
	history->hits++;
}

/* Marks are of windows that the kernel chose before the policy was attached. */
CACHE_EXT_HOOK(s32, leap_decide_window, struct cache_ext_window_ctx *window)
{
	u64 index = window->index, end = index + window->nr_wanted - 1;
	struct history *history;
	bool follows;
	s64 trend;
	u32 size;

	if (window->trigger == CACHE_EXT_TRIGGER_MARK)
		return 1;
	history = history_of(window->file);
	record(history, index, end);
	trend = find_trend(history);
	follows = trend && distance_at(history, 0) == trend;
	size = next_window(history, follows);
	if (trend)
		history->trend = trend;
	history->hits = 0;
	history->window = size;
	if (!size || !history->trend)
		return 1;
	if (history->trend == 1) {
		window->start = index;
		window->size = window->nr_wanted + size;
		return 1;
	}
	window->start = end + history->trend;
	window->size = 1;
	window->stride = history->trend;
	window->times = size;
	return 1;
}

CACHE_EXT_PREFETCH_OPS(leap, .decide_window = HOOK(leap_decide_window),
		       .page_used = HOOK(leap_page_used));
