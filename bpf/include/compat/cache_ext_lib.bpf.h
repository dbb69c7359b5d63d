/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface that was published with cache_ext (SOSP '25), under its own names, on top of the
 * kernel's interface. Published policies are compiled with this folder in the search path and
 * without other changes. docs/reference/published_policies.md explains what each name stands for
 * and what differs.
 */
#ifndef CACHE_EXT_LIB_BPF_H
#define CACHE_EXT_LIB_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifndef NULL
#define NULL ((void *)0)
#endif
#define U32_MAX ((u32)~0U)
#define U64_MAX ((u64)~0ULL)
#define S64_MAX ((s64)(U64_MAX >> 1))
#define pgoff_t unsigned long

#ifndef max
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef min
#define min(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef READ_ONCE
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#endif
#ifndef WRITE_ONCE
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
#endif

/* Hooks of folios cannot print. Published policies print in them when something has failed. */
#undef bpf_printk
#define bpf_printk(...) ({ 0; })

/* Hooks. */
#define BPF_STRUCT_OPS(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)

/* Members of tables and contexts that have other names in the kernel. */
#define folio_evicted folio_removed
#define request_nr_folios_to_evict nr_requested
#define nr_folios_to_evict nr_proposed

/* Names in the first release. */
#define page_cache_ext_ops cache_ext_ops
#define page_cache_ext_eviction_ctx cache_ext_eviction_ctx

/*
 * Macros and not enumerators: the types of the patched kernel have enumerators of these names, but
 * not all of them are in its BTF.
 */
#define CACHE_EXT_CONTINUE_ITER 0
#define CACHE_EXT_STOP_ITER 1
#define CACHE_EXT_EVICT_NODE 2
#define CACHE_EXT_DONE_ITER 0
#define CACHE_EXT_MAX_ITER_REACHED 8
#define CACHE_EXT_EVICT_ARRAY_FILLED 9
#define CACHE_EXT_ITERATE_SKIP 0
#define CACHE_EXT_ITERATE_HEAD 1
#define CACHE_EXT_ITERATE_TAIL 2
#define CACHE_EXT_ITERATE_SELF 0

struct sampling_options {
	__u32 sample_size;
	__u32 select_size;
};

extern u64 bpf_cache_ext_list_create(struct mem_cgroup *memcg) __ksym;
extern int bpf_cache_ext_list_add(u64 list, struct folio *folio, bool tail) __ksym;
extern int bpf_cache_ext_list_move(u64 list, struct folio *folio, bool tail) __ksym;
extern int bpf_cache_ext_list_del(struct folio *folio) __ksym;
extern int bpf_cache_ext_list_iterate_nodes(u64 list, struct cache_ext_eviction_ctx *request,
					    int (*fn)(int idx, struct cache_ext_list_node *node),
					    struct cache_ext_iterate_opts *opts) __ksym;
extern int bpf_cache_ext_list_sample(u64 list, struct cache_ext_eviction_ctx *request,
				     s64 (*fn)(struct cache_ext_list_node *node),
				     u32 sample_size) __ksym;

/* A macro is not expanded within itself, so these macros call the functions of the kernel. */
#define bpf_cache_ext_ds_registry_new_list(memcg) bpf_cache_ext_list_create(memcg)
#define bpf_cache_ext_list_add(list, folio) bpf_cache_ext_list_add(list, folio, false)
#define bpf_cache_ext_list_add_tail(list, folio) (bpf_cache_ext_list_add)(list, folio, true)
#define bpf_cache_ext_list_iterate(memcg, list, fn, ctx)                                           \
	({                                                                                         \
		struct cache_ext_iterate_opts iterate_opts__ = {};                                 \
		bpf_cache_ext_list_iterate_nodes(list, ctx, fn, &iterate_opts__);                  \
	})
#define bpf_cache_ext_list_iterate_extended(memcg, list, fn, opts, ctx)                            \
	bpf_cache_ext_list_iterate_nodes(list, ctx, fn, opts)
#define bpf_cache_ext_list_sample(memcg, list, fn, opts, ctx)                                      \
	bpf_cache_ext_list_sample(list, ctx, fn, (opts)->sample_size)

extern int bpf_iter_cache_ext_num_new(struct bpf_iter_cache_ext_num *it, int start,
				      int end) __weak __ksym;
extern int *bpf_iter_cache_ext_num_next(struct bpf_iter_cache_ext_num *it) __weak __ksym;
extern void bpf_iter_cache_ext_num_destroy(struct bpf_iter_cache_ext_num *it) __weak __ksym;

/*
 * The kernel counts the steps of this iterator in init, but not those of libbpf's bpf_for. The
 * kernel guarantees that i is within the bounds; the comparison is there because the verifier does
 * not know it.
 */
#undef bpf_for
#define bpf_for(i, start, end)                                                                     \
	for (struct bpf_iter_cache_ext_num it__                                                    \
	     __attribute__((cleanup(bpf_iter_cache_ext_num_destroy))),                             \
	     *begun__ __attribute__((unused)) = (bpf_iter_cache_ext_num_new(&it__, start, end),    \
						 (struct bpf_iter_cache_ext_num *)0);              \
	     ({                                                                                    \
		     int *next__ = bpf_iter_cache_ext_num_next(&it__);                             \
		     next__ && ((i) = *next__, (i) >= (start) && (i) < (end));                     \
	     });)

/* Folios and inodes. */
#define FOLIO_TEST(name)                                                                           \
	static inline bool folio_test_##name(struct folio *folio)                                  \
	{                                                                                          \
		return folio->flags >> bpf_core_enum_value(enum pageflags, PG_##name) & 1;         \
	}

FOLIO_TEST(locked)
FOLIO_TEST(writeback)
FOLIO_TEST(uptodate)
FOLIO_TEST(dirty)
FOLIO_TEST(lru)
FOLIO_TEST(head)
FOLIO_TEST(reclaim)
FOLIO_TEST(unevictable)

static inline bool folio_test_large(struct folio *folio)
{
	return folio_test_head(folio);
}

/* A policy never sees a hugetlb folio. */
static inline bool folio_test_hugetlb(struct folio *folio)
{
	return false;
}

static inline long folio_nr_pages(struct folio *folio)
{
	return folio_test_large(folio) ? folio->_folio_nr_pages : 1;
}

static inline pgoff_t folio_index(struct folio *folio)
{
	return folio->index;
}

static inline loff_t i_size_read(const struct inode *inode)
{
	return inode->i_size;
}

/* A random number below `below`; 0 if `below` is 0. */
static inline u32 bpf_get_random_biased(u32 below)
{
	return below ? bpf_get_prandom_u32() % below : 0;
}

/* Uses a multiplication, whose bias is less than 2^-32 * below. */
static inline u32 bpf_get_random_unbiased(u32 below)
{
	return (u64)bpf_get_prandom_u32() * below >> 32;
}

#endif
