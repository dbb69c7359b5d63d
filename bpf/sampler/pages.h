/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which pages of a call are in the sample. Its functions are global ones, which the verifier looks
 * at once: it follows a loop page by page, and when this was a part of its callers, that of 6.1 did
 * not come to an end within minutes on an emulated CPU.
 */
#ifndef CACHEPILOT_SAMPLER_PAGES_H
#define CACHEPILOT_SAMPLER_PAGES_H

#include "folio.h"
#include "page_tree.h"
#include "ring.h"
#include "tracked.h"

#define PAGE_SHIFT 12
#define CHUNK_PAGES 256
/* Most chunks of one call that are looked at, 256 MiB: it bounds how long a program runs. */
#define MAX_CHUNKS 256

/*
 * What the pages of a call have in common. Global functions are given its address, as they take
 * numbers and memory alone, no pointers into the kernel.
 */
struct sampling {
	struct event event;
	/* Where to look up who is charged; 0: nowhere. */
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

/* Whether somebody else is charged for a page: then the tenant's own cache does not decide on it. */
static __always_inline bool is_elsewhere(const struct event *event, u64 mapping, u64 index)
{
	void *folio = folio_at((struct address_space *)mapping, index);
	u64 owner = 0;

	/* Accesses are told without it as well. */
	if (folio && tells_owners())
		owner = owner_of(folio);
	return owner && !same_tenant(event->cgroup, owner);
}

/* Reports a page whose hash is up to the threshold. */
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

/* The same of one chunk of pages [first, first + pages), the `turn`-th, counted round. */
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
 * The same of any number of pages. Returns how many were looked at: of more than MAX_CHUNKS chunks
 * so many, from a random one on and round, so that each is as likely as another. Nothing but `i`
 * changes from turn to turn: the verifier of 6.1 takes each value of anything else for a new state.
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
