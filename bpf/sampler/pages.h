/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides which pages of a call are in the sample. The functions on pages are global, so the
 * verifier checks each of them once. It follows a loop page by page: when these loops were part of
 * their callers, the verifier of 6.1 did not finish within minutes on an emulated CPU.
 */
#ifndef CACHEPILOT_SAMPLER_PAGES_H
#define CACHEPILOT_SAMPLER_PAGES_H

#include "folio.h"
#include "page_tree.h"
#include "ring.h"
#include "tracked.h"

#define PAGE_SHIFT 12
#define CHUNK_PAGES 256
/*
 * Maximum number of chunks of one call that are looked at, 256 MiB. It bounds the run time of a
 * program.
 */
#define MAX_CHUNKS 256

/*
 * The data that the pages of a call have in common. A global function gets its address, because its
 * arguments can be numbers and memory, but not pointers into the kernel.
 */
struct sampling {
	struct event event;
	/* Page cache in which to look up who is charged for a page; 0: no lookup. */
	u64 mapping;
};

static __always_inline void fill_event(struct event *event, u64 cgroup, const struct inode *host,
				       u32 flags, u64 now_ns)
{
	event->time_ns = now_ns;
	event->cgroup = cgroup;
	event->inode = host->i_ino;
	event->device = host->i_sb->s_dev;
	event->generation = host->i_generation;
	event->task = (u32)bpf_get_current_pid_tgid();
	event->flags = flags;
}

/* models::hash::sample_hash() */
static __always_inline u64 sample_hash(const struct event *event, u64 index)
{
	u64 x = index + ((event->inode ^ event->generation) << 32);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
}

/*
 * Whether the page is charged to a cgroup of another tenant or of none. The tenant's own cache then
 * does not decide whether the page stays.
 */
static __always_inline bool is_elsewhere(const struct event *event, u64 mapping, u64 index)
{
	void *folio = folio_at((struct address_space *)mapping, index);
	u64 owner = 0;

	/* If the kernel lacks these fields, accesses are reported all the same. */
	if (folio && tells_owners())
		owner = owner_of(folio);
	return owner && !same_tenant(event->cgroup, owner);
}

/* Reports the page if its hash is at most the threshold. */
__attribute__((noinline)) int sample_page(struct sampling *of, u64 index, u64 threshold)
{
	if (!of || sample_hash(&of->event, index) > threshold)
		return 0;
	of->event.index = index;
	of->event.flags &= ~EVENT_ELSEWHERE;
	if (of->mapping && is_elsewhere(&of->event, of->mapping, index))
		of->event.flags |= EVENT_ELSEWHERE;
	report(&of->event);
	return 0;
}

static __always_inline u64 chunks_of(u64 pages)
{
	return (pages + CHUNK_PAGES - 1) / CHUNK_PAGES;
}

/*
 * The same for one chunk of the pages [first, first + pages). `turn` modulo the number of chunks
 * selects the chunk.
 */
__attribute__((noinline)) int sample_chunk(struct sampling *of, u64 first, u64 pages, u64 turn,
					   u64 threshold)
{
	u64 begin = turn % chunks_of(pages) * CHUNK_PAGES;

	if (!of)
		return 0;
	for (u32 i = 0; i < CHUNK_PAGES && begin + i < pages; i++)
		sample_page(of, first + begin + i, threshold);
	return 0;
}

/*
 * The same for any number of pages. Returns the number of pages that it looked at. If there are
 * more than MAX_CHUNKS chunks, it looks at MAX_CHUNKS of them, starting with a random one and
 * wrapping around, so that each chunk is equally likely. Only `i` changes between iterations: the
 * verifier of 6.1 takes each value of any other variable for a new state.
 */
__attribute__((noinline)) int sample_pages(struct sampling *of, u64 first, u64 pages, u64 threshold)
{
	u64 chunks = chunks_of(pages);
	u64 turn = chunks > MAX_CHUNKS ? bpf_get_prandom_u32() : 0;

	for (u32 i = 0; i < MAX_CHUNKS && i < chunks; i++)
		sample_chunk(of, first, pages, turn + i, threshold);
	return chunks > MAX_CHUNKS ? MAX_CHUNKS * CHUNK_PAGES : (int)pages;
}

#endif
