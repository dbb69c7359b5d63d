/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The policy API: the only header that a policy includes.
 *
 * The same policy.bpf.c is compiled to BPF for the kernel, where every bpf_cache_ext_* function is
 * a kfunc, and natively for simulation, where they are inline functions over a simulated page
 * cache. docs/contributing/adding_a_policy.md walks through a policy; this file is the reference.
 *
 * A policy declares, in this order:
 *   POLICY_STATE(struct NAME_state)    optional state of one instance, STATE->field, zero at init
 *   POLICY_FOLIO_STATE(struct X)       optional state of one folio, FOLIO_STATE(folio)->field,
 *                                      zero when the folio is added; its size is in policy.toml
 *   CACHE_EXT_HOOK(ret, name, args...) one function per hook it implements (no argument of a hook
 *                                      may be called ctx: BPF_PROG uses that name)
 *   CACHE_EXT_OPS(NAME, .init = HOOK(function), ...)   the table of hooks
 * and reads its tunables, declared in policy.toml, as TUNABLE(field).
 *
 * Counts are in pages. Hooks never sleep and may run on any CPU at the same time, so that counters
 * in STATE are changed by cache_ext_add() where a lost update would matter.
 */
#ifndef CACHE_EXT_BPF_H
#define CACHE_EXT_BPF_H

#ifdef __bpf__
#include "kernel_types.h"
#else
#include "native/types.h"
#endif

/* Most candidates of one eviction request, and most folios that batch scoring looks at. */
#define CACHE_EXT_MAX_CANDIDATES 32
#define CACHE_EXT_MAX_BATCH 512

/* What a simple-mode callback wants done with the folio it was shown. */
enum cache_ext_verdict {
	CACHE_EXT_KEEP,	  /* leave it where it is */
	CACHE_EXT_ROTATE, /* move it to the tail of its list */
	CACHE_EXT_MOVE,	  /* move it to the tail of opts->target_list */
	CACHE_EXT_EVICT,  /* propose it for eviction */
	CACHE_EXT_STOP,	  /* leave it and end the iteration */
};

enum cache_ext_iter_mode {
	/* The callback returns a verdict; ends when the request is satisfied. */
	CACHE_EXT_ITER_SIMPLE,
	/*
	 * The callback returns a score. Up to max_scan folios from the head are scored, those with
	 * the lowest scores are proposed, older ones first among equals, and the others move to the
	 * tail in their order, so that the next request looks at different folios.
	 */
	CACHE_EXT_ITER_SCORE,
};

/* What an application said of a folio's pages, by posix_fadvise() or the call beside it. */
enum cache_ext_advice {
	CACHE_EXT_ADVICE_WILLNEED = 1, /* will be read soon */
	CACHE_EXT_ADVICE_NOREUSE,      /* will be read once */
	CACHE_EXT_ADVICE_DONTNEED,     /* was to go, but is dirty, mapped or otherwise held */
	CACHE_EXT_ADVICE_KEEP,	       /* shall stay, if that can be */
};

struct cache_ext_iter_opts {
	u32 mode;	 /* enum cache_ext_iter_mode */
	u32 max_scan;	 /* most folios to look at; 0: all that were listed at the start */
	u64 target_list; /* for CACHE_EXT_MOVE */
	u32 from_tail;	 /* simple mode: start at the tail and go towards the head */
};

/*
 * Hooks. All are optional, one beside init and exit is needed:
 *   s32  init(struct mem_cgroup *memcg)        create lists; 0 or a negative errno
 *   void exit(struct mem_cgroup *memcg)
 *   void evict_folios(struct cache_ext_eviction_ctx *request, struct mem_cgroup *memcg)
 *                                              propose request->nr_requested candidates
 *            Without it eviction is the kernel's, as if there were no policy. Such a policy may filter
 *            or watch. It has no use for lists and ghosts, and the build refuses them: in simulation
 *            those are kernel_lru's, which evicts in the kernel's place.
 *   void folio_added(struct folio *folio)      put it on a list; needed with evict_folios
 *            also called for what is cached when the policy is attached, oldest first, which is no
 *            access: folio_accessed is called when there is one
 *   void folio_accessed(struct folio *folio, bool first)
 *            first: the access that brought the folio in, or the first use after readahead;
 *            it is not a re-reference
 *   void folio_removed(struct folio *folio, bool evicted)
 *            evicted: by reclaim, not by truncation; the folio is taken off its list afterwards,
 *            and a ghost entry may be left here
 *   bool admit_folio(u64 page_key)             false: serve the miss without caching it
 *   void folio_counted(struct folio *folio, u32 accesses)
 *            re-references since the last call, for policies that only count or mark: a hit then runs
 *            no program. The kernel counts up to 63 and tells before the folio is shown to
 *            evict_folios or passed to folio_advised or folio_removed; in simulation each is told at
 *            once. With this hook folio_accessed is called for first accesses alone.
 *   void folio_advised(struct folio *folio, u32 advice)
 *            an application of the cgroup said something of the folio, enum cache_ext_advice; never
 *            in simulation, as traces say nothing of it. Without this hook what is to be kept counts
 *            as accessed once more, and other advice is the kernel's alone.
 *   void folio_split(struct folio *folio, struct folio *split_off)
 *            a large folio was split: folio is what is left of it, and split_off one of the parts
 *            behind it, the last of them first. Each part has a copy of its state and stands behind
 *            it on its list. Nothing may be read of split_off itself, as it is not whole yet; the
 *            functions below work. At most 4,096 instructions, as it runs for up to 511 parts in a
 *            row with interrupts off; never in simulation, where all folios are pages.
 *
 * Lists (ids are never 0):
 *   u64  bpf_cache_ext_list_create(memcg)                      0 when out of memory
 *   int  bpf_cache_ext_list_add(list, folio, bool tail)
 *   int  bpf_cache_ext_list_move(list, folio, bool tail)       from whatever list it is on
 *   int  bpf_cache_ext_list_del(folio)
 *   u64  bpf_cache_ext_list_len(list)                          pages
 *   u64  bpf_cache_ext_folio_list(folio)                       list it is on, 0 for none
 *   int  bpf_cache_ext_list_iterate(list, request, s64 (*fn)(struct folio *, void *data), data,
 *                                   opts)
 *            returns the number of folios looked at; a proposed folio that the kernel refuses
 *            (locked, dirty) goes to the tail of its list, so that it is not proposed for ever
 *   int  bpf_cache_ext_propose(request, folio)                 whatever list it is on, or none
 *
 * Ghosts: metadata of evicted pages, oldest forgotten first beyond capacity_pct of the cgroup's
 * capacity, whatever that capacity becomes:
 *   u64  bpf_cache_ext_ghost_create(memcg, u32 capacity_pct)
 *   int  bpf_cache_ext_ghost_add(ghost, folio, u32 value)      in folio_removed
 *   s64  bpf_cache_ext_ghost_take(ghost, folio)                in folio_added: value, or -1
 *            a page that comes back leaves its ghost entry, asked for or not
 *   u64  bpf_cache_ext_ghost_len(ghost)
 *   void bpf_cache_ext_ghost_trim(ghost, u64 len)              forget the oldest beyond len
 *
 * Others:
 *   u64  bpf_cache_ext_capacity(list)     pages that the list's cgroup may hold now; without a
 *                                         limit, those it has and those free in the machine
 *   u64  bpf_cache_ext_page_key(folio)    hash of (device, inode + generation, index)
 *   u32  cache_ext_folio_pages(folio)
 *   bool cache_ext_folio_is_busy(folio)   it cannot go now: being read or written, or not on the
 *                                         kernel's LRU yet; never so in simulation
 *   bool cache_ext_folio_is_unused(folio) read ahead, and not accessed since; in simulation only
 *                                         where readahead is simulated
 *   bool cache_ext_folio_is_mapped(folio) a process has it in its address space, whose accesses are
 *                                         not seen here; never so in simulation
 *   u32  cache_ext_current_task()         thread id
 *   u64  cache_ext_clock_ns()             monotonic
 *   u32  cache_ext_random()
 *   void cache_ext_add(pointer, value)    counter shared between CPUs
 *   u32  cache_ext_zero()                 0, unknown to the verifier: what a callback counts up
 *                                         from here it need not follow from count to count
 *   u32  cache_ext_scan_pages(list, wanted, pages_per_candidate)
 *                                         max_scan of a batch that scores to find `wanted` pages
 */
#ifdef __bpf__
#include "kernel_api.h"
#else
#include "native/page_cache.h"
#endif

/* Most of a list that one request may score: new pages shall not be judged at once. */
#define SCAN_SHARE 4

/* Pages to score for `wanted` candidates: in proportion to them, within a share of the list. */
static inline u32 cache_ext_scan_pages(u64 list, u64 wanted, u64 pages_per_candidate)
{
	u64 most = bpf_cache_ext_list_len(list) / SCAN_SHARE;
	u64 pages = wanted * pages_per_candidate;

	if (pages > most)
		pages = most;
	return pages > wanted ? pages : wanted;
}

#endif
