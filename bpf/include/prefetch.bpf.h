/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The API of readahead policies: the only header that one includes. A cgroup has one such policy
 * beside its eviction policy, and each is attached and replaced by itself.
 *
 * A policy.bpf.c under bpf/prefetch is compiled to BPF for the kernel, and natively for simulation,
 * as the eviction policies are (see cache_ext.bpf.h, whose POLICY_STATE, STATE, TUNABLE,
 * CACHE_EXT_HOOK, HOOK, cache_ext_add, cache_ext_zero and cache_ext_current_task are here, too).
 *
 * Hooks:
 *   s32  decide_window(struct cache_ext_window_ctx *window)
 *            needed; sets the window and returns 1, or returns 0: the kernel decides. It is asked
 *            when a page is not cached, and at the first access to a page that has the mark of a
 *            window. Not asked where the application has switched readahead off
 *            (POSIX_FADV_RANDOM, MADV_RANDOM).
 *   void page_used(u64 file, u64 index)
 *            the first access to a page that was read ahead by the policy's decision; other hits
 *            are not told, nor any that happens through a page table
 *
 * In decide_window:
 *   u64  bpf_cache_ext_cached_before(window)   pages right before window->index that are cached
 *   u64  bpf_cache_ext_cached_after(window)    pages right behind it that are; 512 are looked at
 *   int  bpf_cache_ext_prefetch(window, u64 start, u32 size)
 *            asks for pages of the same file beside the window; they are read soon, by a worker, in
 *            simulation after the window. 0, or a negative errno when nothing will be: the range is
 *            not in the file, or 64 requests wait
 *
 * The kernel reads what was asked for, whatever the window is, and bounds the window: it ends with
 * the file, has at most 32 blocks and the larger of 512 pages and window->max_pages, and at most a
 * quarter of the cgroup's limit.
 */
#ifndef PREFETCH_BPF_H
#define PREFETCH_BPF_H

#ifdef __bpf__
#include "kernel_types.h"
/* Of functions that are for eviction policies. */
struct cache_ext_iter_opts;
#include "kernel_api.h"
#else
#include "native/types.h"
#endif

enum cache_ext_trigger {
	CACHE_EXT_TRIGGER_MISS,	 /* a read of pages the first of which is not cached */
	CACHE_EXT_TRIGGER_MARK,	 /* the first access to the marked page of a window */
	CACHE_EXT_TRIGGER_FAULT, /* a page fault on a page that is not cached */
};

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct cache_ext_window_ctx {
	u64 file;	/* hash of (device, inode + generation) */
	u64 index;	/* the page that is not cached, or has the mark */
	u64 nr_wanted;	/* pages from there on that the reader has asked for */
	u64 file_pages; /* the file's size */
	u64 prev_index; /* where the last read of the open file ended; all ones: there was none */
	u64 last_start; /* the last window of the open file that was one block */
	u32 last_size;
	u32 last_async_size;
	u32 max_pages;	 /* largest window that the kernel would choose */
	u32 trigger;	 /* enum cache_ext_trigger */
	u64 folio_pages; /* size of the folio that has the mark, else 1 */
	/* The window: written by the policy, zero before. */
	u64 start;	/* first page to read */
	u32 size;	/* pages from there; 0: nothing beyond nr_wanted */
	u32 async_size; /* pages at the end, the first of which gets the mark; 0: no mark */
	s64 stride;	/* distance from a block of `size` pages to the next, if there are more */
	u32 times;	/* how many such blocks, 0 for 1 */
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
