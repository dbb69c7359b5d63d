/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The API of readahead policies. Such a policy includes this header and no other. A cgroup has at
 * most one readahead policy, besides its eviction policy; each is attached and replaced alone.
 *
 * A policy.bpf.c under bpf/prefetch is compiled to BPF for the kernel, and natively for simulation,
 * as eviction policies are. POLICY_STATE, STATE, TUNABLE, CACHE_EXT_HOOK, HOOK, cache_ext_add,
 * cache_ext_zero and cache_ext_current_task are the same as in cache_ext.bpf.h.
 *
 * Hooks:
 *   s32  decide_window(struct cache_ext_window_ctx *window)
 *            Required. Sets the window and returns 1, or returns 0 to leave the decision to the
 *            kernel. Called when a page is not cached, and at the first access to the page of a
 *            window that has the mark. Not called if the application has switched readahead off
 *            (POSIX_FADV_RANDOM, MADV_RANDOM).
 *   void page_used(u64 file, u64 index)
 *            The first access to a page that the policy had read ahead. Not called for other hits,
 *            nor for accesses through a page table.
 *
 * In decide_window:
 *   u64  bpf_cache_ext_cached_before(window)   length of the run of cached pages that ends right
 *                                              before window->index
 *   u64  bpf_cache_ext_cached_after(window)    likewise of the run right behind it; both look at no
 *                                              more than window->max_pages pages, and at most 512
 *   int  bpf_cache_ext_prefetch(window, u64 start, u32 size)
 *            Requests pages of the same file in addition to the window. A worker reads them soon;
 *            in simulation they are read after the window. Returns 0, or a negative errno if
 *            nothing will be read, for example if the range is not in the file or 64 requests wait.
 *
 * The kernel reads the pages that the application asked for, whatever the window is. It bounds the
 * window: it ends with the file, and has at most 32 blocks, at most the larger of 512 and
 * window->max_pages pages, and at most a quarter of the cgroup's limit.
 */
#ifndef PREFETCH_BPF_H
#define PREFETCH_BPF_H

#ifdef __bpf__
#include "kernel_types.h"
/* Named in declarations of functions for eviction policies. */
struct cache_ext_iter_opts;
#include "kernel_api.h"
#else
#include "native/types.h"
#endif

enum cache_ext_trigger {
	CACHE_EXT_TRIGGER_MISS,	 /* a read whose first page is not cached */
	CACHE_EXT_TRIGGER_MARK,	 /* the first access to the marked page of a window */
	CACHE_EXT_TRIGGER_FAULT, /* a page fault on a page that is not cached */
};

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct cache_ext_window_ctx {
	u64 file;	/* hash of (device, inode + generation) */
	u64 index;	/* the page that is not cached or has the mark */
	u64 nr_wanted;	/* pages from index on that the reader asks for */
	u64 file_pages; /* the file's size */
	u64 prev_index; /* page where the last read of the open file ended; all ones: none */
	u64 last_start; /* the last window of the open file that was a single block */
	u32 last_size;
	u32 last_async_size;
	u32 max_pages;	 /* the largest window that the kernel itself would choose */
	u32 trigger;	 /* enum cache_ext_trigger */
	u64 folio_pages; /* size of the folio that has the mark, otherwise 1 */
	/* The window. The policy sets it; all fields are zero before. */
	u64 start;	/* first page to read */
	u32 size;	/* pages per block; 0: read nothing beyond nr_wanted */
	u32 async_size; /* pages at the end, of which the first gets the mark; 0: no mark */
	s64 stride;	/* distance from one block of `size` pages to the next, if times > 1 */
	u32 times;	/* number of such blocks; 0 means 1 */
};

struct cache_ext_prefetch_ops {
	s32 (*decide_window)(struct cache_ext_window_ctx *window);
	void (*page_used)(u64 file, u64 index);
	u64 cgroup_id; /* set by the loader before the table is registered */
	char name[32];
};

#ifdef __bpf__
#pragma clang attribute pop

extern u64 bpf_cache_ext_cached_before(struct cache_ext_window_ctx *window) __ksym;
extern u64 bpf_cache_ext_cached_after(struct cache_ext_window_ctx *window) __ksym;
extern int bpf_cache_ext_prefetch(struct cache_ext_window_ctx *window, u64 start, u32 size) __ksym;

#define CACHE_EXT_PREFETCH_OPS(policy, hooks...)                                                   \
	SEC(".struct_ops.link")                                                                    \
	struct cache_ext_prefetch_ops policy##_ops = {.name = #policy, hooks};                     \
	char LICENSE[] SEC("license") = "Dual BSD/GPL"
#else
#include "native/prefetch.h"
#endif

#endif
