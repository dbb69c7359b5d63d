/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stride: continues reads at equal distances, whatever the distance. Several streams in one file
 * are distinguished by their position. Sequential reads are left to the kernel.
 */
#include "prefetch.bpf.h"

#define SETS 64
#define WAYS 4
#define FIRST_DEPTH 4

struct stream {
	u64 file;
	u64 last; /* start of the last read, or of the last one that was read ahead */
	s64 stride;
	u64 mark;    /* the page that has the mark */
	u64 clock;   /* STATE->clock when the stream was last seen */
	u32 matches; /* number of equal distances in a row */
	u32 depth;   /* reads that the last window read ahead; 0: none */
	u32 size;    /* pages per read */
};

struct stride_state {
	u64 clock;
	struct stream streams[SETS * WAYS];
};

POLICY_STATE(struct stride_state);

static u32 place(u64 file, u32 way)
{
	return (file % SETS * WAYS + way) % (SETS * WAYS);
}

static u64 distance(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/*
 * The stream that this mark belongs to, or NULL if the mark is of a window that the kernel chose.
 */
static struct stream *stream_of_mark(u64 file, u64 index)
{
	for (u32 way = 0; way < WAYS; way++) {
		struct stream *stream = &STATE->streams[place(file, way)];

		if (stream->file == file && stream->depth && stream->mark == index)
			return stream;
	}
	return NULL;
}

/*
 * The nearest stream of the file within max_stride. If there is none, a new stream takes the place
 * of the one that was not seen for the longest time.
 */
static struct stream *stream_of_miss(u64 file, u64 index)
{
	u64 nearest = TUNABLE(max_stride), oldest = ~0ull;
	u32 found = WAYS, replaced = 0;
	struct stream *stream;

	for (u32 way = 0; way < WAYS; way++) {
		stream = &STATE->streams[place(file, way)];
		if (stream->file == file && distance(index, stream->last) <= nearest) {
			nearest = distance(index, stream->last);
			found = way;
		}
		if (stream->clock < oldest) {
			oldest = stream->clock;
			replaced = way;
		}
	}
	if (found < WAYS)
		return &STATE->streams[place(file, found)];
	stream = &STATE->streams[place(file, replaced)];
	stream->file = file;
	stream->last = index;
	stream->stride = 0;
	stream->matches = 0;
	stream->depth = 0;
	return stream;
}

/*
 * Read ahead after the last read, twice as many reads as the last time and at most max_depth. The
 * middle one gets the mark.
 */
static s32 read_on(struct cache_ext_window_ctx *window, struct stream *stream)
{
	u64 start = stream->last + stream->stride;
	u32 depth = stream->depth ? stream->depth * 2 : FIRST_DEPTH;

	if (depth > TUNABLE(max_depth))
		depth = TUNABLE(max_depth);
	stream->depth = depth;
	stream->mark = start + stream->stride * (depth / 2);
	stream->last = start + stream->stride * (depth - 1);
	window->start = start;
	window->size = stream->size;
	window->stride = stream->stride;
	window->times = depth;
	window->async_size = stream->size * (depth - depth / 2);
	return 1;
}

static s32 at_miss(struct cache_ext_window_ctx *window, struct stream *stream)
{
	s64 stride = window->index - stream->last;

	if (stride && stride == stream->stride) {
		stream->matches++;
	} else {
		stream->stride = stride;
		stream->matches = stride != 0;
		stream->depth = 0;
	}
	stream->last = window->index;
	/*
	 * If the next read starts within this one or right at its end, the kernel's own readahead
	 * does well.
	 */
	if (distance(window->index + stride, window->index) <= window->nr_wanted)
		return 0;
	if (stream->matches < TUNABLE(matches))
		return 0;
	stream->size = window->nr_wanted;
	return read_on(window, stream);
}

CACHE_EXT_HOOK(s32, stride_decide_window, struct cache_ext_window_ctx *window)
{
	u64 file = window->file, index = window->index;
	struct stream *stream;

	if (window->trigger == CACHE_EXT_TRIGGER_MARK) {
		stream = stream_of_mark(file, index);
		if (!stream)
			return 0;
		stream->clock = ++STATE->clock;
		return read_on(window, stream);
	}
	stream = stream_of_miss(file, index);
	stream->clock = ++STATE->clock;
	return at_miss(window, stream);
}

CACHE_EXT_PREFETCH_OPS(stride, .decide_window = HOOK(stride_decide_window));
