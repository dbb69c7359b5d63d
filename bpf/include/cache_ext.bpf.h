/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The policy API. A policy includes this header and no other.
 *
 * The same policy.bpf.c is compiled twice: to BPF for the kernel, where each bpf_cache_ext_*
 * function is a kfunc, and natively for simulation, where these functions are inline and work on a
 * simulated page cache. docs/contributing/adding_a_policy.md explains a policy step by step; this
 * file is the reference.
 *
 * An instance is a policy attached to one cgroup, or one simulated cache. A policy declares, in
 * this order:
 *   POLICY_STATE(struct NAME_state)    optional: state of one instance, read and written as
 *                                      STATE->field, zero at init
 *   POLICY_STATE_BY_PAGES(struct NAME_state, member)   instead: the last member of the state is an
 *                                      array that needs no more elements than the cgroup can have
 *                                      pages. It is declared with the most elements that make
 *                                      sense, a power of two. An instance has STATE_PAGES of them,
 *                                      a power of two of 512 or more: use an index
 *                                      & (STATE_PAGES - 1)
 *   POLICY_FOLIO_STATE(struct X)       optional: state of one folio, FOLIO_STATE(folio)->field,
 *                                      zero when the folio is added; policy.toml states its size
 *   CACHE_EXT_HOOK(ret, name, args...) one function for each hook that the policy implements (no
 *                                      argument may be named ctx: BPF_PROG uses that name)
 *   CACHE_EXT_OPS(NAME, .init = HOOK(function), ...)   the table of hooks
 * It reads its tunables, which policy.toml declares, as TUNABLE(field).
 *
 * All counts are in pages. Hooks other than init cannot sleep. They may run on several CPUs at the
 * same time, so a counter in STATE for which a lost update would matter is changed with
 * cache_ext_add().
 */
#ifndef CACHE_EXT_BPF_H
#define CACHE_EXT_BPF_H

#ifdef __bpf__
#include "kernel_types.h"
#else
#include "native/types.h"
#endif

/* Maximum number of candidates of one eviction request, and of folios that one batch scores. */
#define CACHE_EXT_MAX_CANDIDATES 32
#define CACHE_EXT_MAX_BATCH 512

/* Verdict of a simple-mode callback on the folio that it is shown. */
enum cache_ext_verdict {
	CACHE_EXT_KEEP,	  /* leave the folio where it is */
	CACHE_EXT_ROTATE, /* move it to the tail of its list */
	CACHE_EXT_MOVE,	  /* move it to the tail of opts->target_list */
	CACHE_EXT_EVICT,  /* propose it for eviction */
	CACHE_EXT_STOP,	  /* leave it and end the iteration */
};

enum cache_ext_iter_mode {
	/* The callback returns a verdict. The iteration ends when the request is satisfied. */
	CACHE_EXT_ITER_SIMPLE,
	/*
	 * The callback returns a score. Up to max_scan folios from the head are scored. Those with
	 * the lowest scores are proposed, older ones first if scores are equal. The others move to
	 * the tail in their order, so that the next request looks at different folios.
	 */
	CACHE_EXT_ITER_SCORE,
};

/*
 * Advice of an application on the pages of a folio, given with posix_fadvise().
 * CACHE_EXT_ADVICE_KEEP stands for FADV_CACHE_KEEP, an advice that cache_ext adds to that call.
 */
enum cache_ext_advice {
	CACHE_EXT_ADVICE_WILLNEED = 1, /* will be read soon */
	CACHE_EXT_ADVICE_NOREUSE,      /* will be read once */
	CACHE_EXT_ADVICE_DONTNEED,     /* should be dropped, but is dirty, mapped or in use */
	CACHE_EXT_ADVICE_KEEP,	       /* should stay if possible */
};

struct cache_ext_iter_opts {
	u32 mode;	 /* enum cache_ext_iter_mode */
	u32 max_scan;	 /* maximum number of folios to look at; 0: all on the list at the start */
	u64 target_list; /* for CACHE_EXT_MOVE */
	u32 from_tail;	 /* simple mode: start at the tail and move towards the head */
};

/*
 * Hooks. Each one is optional, but a policy needs at least one besides init and exit:
 *   s32  init(struct mem_cgroup *memcg)        create lists; return 0 or a negative errno
 *   void exit(struct mem_cgroup *memcg)
 *   void evict_folios(struct cache_ext_eviction_ctx *request, struct mem_cgroup *memcg)
 *                                              propose request->nr_requested candidates
 *            If a policy has no such hook, the kernel evicts as if there were no policy, and the
 *            policy only filters or observes. It has no use for lists and ghosts, and the build
 *            rejects their use: in simulation kernel_lru evicts in place of the kernel, and all
 *            lists and ghosts are its own.
 *   void folio_added(struct folio *folio)      put the folio on a list; required with evict_folios
 *            Also called for each folio that is cached when the policy is attached, oldest first.
 *            An addition is not an access: folio_accessed is called when there is one.
 *   void folio_accessed(struct folio *folio, bool first)
 *            first: the access that brought the folio in, or the first use after readahead;
 *            it is not a re-reference
 *   void folio_removed(struct folio *folio, bool evicted)
 *            evicted: removed by reclaim, not by truncation. The folio is taken off its list after
 *            this hook, which may create a ghost entry.
 *   bool admit_folio(u64 page_key)             false: serve the miss without caching the page
 *   void folio_counted(struct folio *folio, u32 accesses)
 *            accesses: re-references since the last call. For policies that only count or mark: a
 *            hit then runs no program. The kernel counts up to 63, and calls this hook before it
 *            shows the folio to evict_folios or passes it to folio_advised or folio_removed. In
 *            simulation the hook is called at each re-reference. With this hook folio_accessed is
 *            called for first accesses only.
 *   void folio_advised(struct folio *folio, u32 advice)
 *            An application of the cgroup gave advice on the folio, enum cache_ext_advice. Never
 *            called in simulation, because traces have no advice. Without this hook, advice to keep
 *            a folio counts as one more access, and only the kernel acts on other advice.
 *   void folio_split(struct folio *folio, struct folio *split_off)
 *            A large folio was split. folio is its first part, and split_off is one of the parts
 *            behind it; the last part comes first. Each part has a copy of the folio's state and
 *            stands behind the first part on its list. split_off is not complete yet: do not read
 *            its fields. The functions below accept it. The hook has at most 4,096 instructions,
 *            because it runs for up to 511 parts in a row with interrupts off. Never called in
 *            simulation, where each folio is one page.
 *
 * Lists (ids are never 0):
 *   u64  bpf_cache_ext_list_create(memcg)                      in init; 0: no list is left
 *   int  bpf_cache_ext_list_add(list, folio, bool tail)
 *   int  bpf_cache_ext_list_move(list, folio, bool tail)       from whichever list it is on
 *   int  bpf_cache_ext_list_del(folio)
 *   u64  bpf_cache_ext_list_len(list)                          in pages
 *   u64  bpf_cache_ext_folio_list(folio)                       list that it is on, 0 for none
 *   int  bpf_cache_ext_list_iterate(list, request, s64 (*fn)(struct folio *, void *data), data,
 *                                   opts)
 *            Returns the number of folios that it looked at. If the kernel refuses a proposed folio
 *            (locked, dirty), the folio goes to the tail of its list, so that it is not proposed
 *            again and again.
 *   int  bpf_cache_ext_propose(request, folio)                 on any list or on none
 *
 * Ghosts are metadata of evicted pages. A ghost list has at most capacity_pct of the current
 * capacity of the cgroup; beyond that the oldest ghosts are dropped:
 *   u64  bpf_cache_ext_ghost_create(memcg, u32 capacity_pct)   in init
 *   int  bpf_cache_ext_ghost_add(ghost, folio, u32 value)      in folio_removed
 *   s64  bpf_cache_ext_ghost_take(ghost, folio)                in folio_added: value, or -1
 *            The ghost entry of a page is removed when the page is added again, whether or not the
 *            policy takes it.
 *   u64  bpf_cache_ext_ghost_len(ghost)
 *   void bpf_cache_ext_ghost_trim(ghost, u64 len)              drop the oldest beyond len
 *
 * Others:
 *   u64  bpf_cache_ext_capacity(list)     pages that the cgroup of the list may use now; without a
 *                                         limit, its own pages plus the free pages of the machine
 *   u64  bpf_cache_ext_page_key(folio)    hash of (device, inode + generation, index)
 *   u32  cache_ext_folio_pages(folio)
 *   bool cache_ext_folio_is_busy(folio)   cannot be evicted now: locked, under writeback, or not on
 *                                         the kernel's LRU yet; always false in simulation
 *   bool cache_ext_folio_is_unused(folio) read ahead and not accessed since; in simulation only
 *                                         if readahead is simulated
 *   bool cache_ext_folio_is_mapped(folio) mapped by a process, whose accesses the policy does not
 *                                         see; always false in simulation
 *   u32  cache_ext_current_task()         thread id
 *   u64  cache_ext_clock_ns()             monotonic
 *   u32  cache_ext_random()
 *   void cache_ext_add(pointer, value)    add to a counter that CPUs share
 *   u32  cache_ext_zero()                 0, but unknown to the verifier: if a callback starts a
 *                                         counter here, the verifier need not follow each value
 *   u32  cache_ext_scan_pages(list, wanted, pages_per_candidate)
 *                                         max_scan of a batch that is scored to find `wanted` pages
 */
#ifdef __bpf__
#include "kernel_api.h"
#else
#include "native/page_cache.h"
#endif

/* One request scores at most 1 / SCAN_SHARE of a list, so that new pages are not judged at once. */
#define SCAN_SHARE 4

/*
 * Number of pages to score for `wanted` candidates: pages_per_candidate for each, but at most the
 * share of the list, and at least `wanted`.
 */
static inline u32 cache_ext_scan_pages(u64 list, u64 wanted, u64 pages_per_candidate)
{
	u64 most = bpf_cache_ext_list_len(list) / SCAN_SHARE;
	u64 pages = wanted * pages_per_candidate;

	if (pages > most)
		pages = most;
	return pages > wanted ? pages : wanted;
}

#endif
