/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The policy API in the kernel: kfuncs, struct_ops and BPF globals. See cache_ext.bpf.h. */
#ifndef CACHE_EXT_KERNEL_API_H
#define CACHE_EXT_KERNEL_API_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Generated from the policy.toml of the policy: struct policy_tunables and its defaults. */
#include "policy_manifest.h"

extern u64 bpf_cache_ext_list_create(struct mem_cgroup *memcg) __ksym;
extern int bpf_cache_ext_list_add(u64 list, struct folio *folio, bool tail) __ksym;
extern int bpf_cache_ext_list_move(u64 list, struct folio *folio, bool tail) __ksym;
extern int bpf_cache_ext_list_del(struct folio *folio) __ksym;
extern u64 bpf_cache_ext_list_len(u64 list) __ksym;
extern u64 bpf_cache_ext_folio_list(struct folio *folio) __ksym;
extern int bpf_cache_ext_list_iterate(u64 list, struct cache_ext_eviction_ctx *ctx,
				      s64 (*fn)(struct folio *folio, void *data), void *data,
				      struct cache_ext_iter_opts *opts) __ksym;
extern int bpf_cache_ext_propose(struct cache_ext_eviction_ctx *ctx, struct folio *folio) __ksym;
extern u64 bpf_cache_ext_ghost_create(struct mem_cgroup *memcg, u32 capacity_pct) __ksym;
extern int bpf_cache_ext_ghost_add(u64 ghost, struct folio *folio, u32 value) __ksym;
extern s64 bpf_cache_ext_ghost_take(u64 ghost, struct folio *folio) __ksym;
extern u64 bpf_cache_ext_ghost_len(u64 ghost) __ksym;
extern void bpf_cache_ext_ghost_trim(u64 ghost, u64 len) __ksym;
extern u64 bpf_cache_ext_capacity(u64 list) __ksym;
extern u64 bpf_cache_ext_page_key(struct folio *folio) __ksym;
extern u32 bpf_cache_ext_folio_pages(struct folio *folio) __ksym;
extern bool bpf_cache_ext_folio_unused(struct folio *folio) __ksym;
/*
 * The name of the size argument tells the verifier how many bytes of the result may be accessed.
 * This works for pointers to bytes only: since 6.9 the verifier takes a void pointer from a kfunc
 * for a number.
 */
extern u8 *bpf_cache_ext_folio_state(struct folio *folio, const u64 rdwr_buf_size) __ksym;

/*
 * For programs of type syscall, which may sleep, not for hooks. Returns the number of reclaimed
 * pages, or a negative errno.
 */
extern s64 bpf_cache_ext_reclaim(u64 cgroup_id, u64 nr_pages) __ksym;

#define POLICY_STATE(type) type cache_ext_state
#define STATE (&cache_ext_state)
/*
 * The loader reads these variables and sets the first to what the limits of the cgroup allow. It
 * cuts the state off behind the last element. The verifier knows the value of a constant, so it
 * knows the bound of a masked index.
 */
#define POLICY_STATE_BY_PAGES(type, array)                                                         \
	const volatile u64 cache_ext_state_pages =                                                 \
		sizeof(((type *)0)->array) / sizeof(((type *)0)->array[0]);                        \
	const volatile u64 cache_ext_state_page_bytes = sizeof(((type *)0)->array[0]);             \
	_Static_assert(__builtin_offsetof(type, array) + sizeof(((type *)0)->array) ==             \
			       sizeof(type),                                                       \
		       #array " is not the last member of the state");                             \
	POLICY_STATE(type)
#define STATE_PAGES cache_ext_state_pages
#define POLICY_FOLIO_STATE(type)                                                                   \
	typedef type cache_ext_folio_state_t;                                                      \
	_Static_assert(sizeof(type) == CACHE_EXT_FOLIO_STATE_BYTES,                                \
		       "folio_state_bytes in policy.toml differs from the code")
#define FOLIO_STATE(folio)                                                                         \
	((cache_ext_folio_state_t *)(void *)bpf_cache_ext_folio_state(                             \
		folio, sizeof(cache_ext_folio_state_t)))

/*
 * Volatile and in a section of their own, which becomes a separate map: through it user space
 * changes the tunables of a running policy.
 */
SEC(".data.tunables")
volatile struct policy_tunables cache_ext_tunables = {CACHE_EXT_TUNABLE_DEFAULTS};
#define TUNABLE(field) (cache_ext_tunables.field)

/* Never written, but the verifier must assume that it can change. */
volatile u32 cache_ext_zero_word;
#define cache_ext_zero() cache_ext_zero_word

#define CACHE_EXT_HOOK(ret, name, args...) SEC("struct_ops/" #name) ret BPF_PROG(name, ##args)
#define CACHE_EXT_OPS(policy, hooks...)                                                            \
	SEC(".struct_ops.link") struct cache_ext_ops policy##_ops = {.name = #policy, hooks};      \
	char LICENSE[] SEC("license") = "Dual BSD/GPL"
#define HOOK(name) ((void *)(name))

#define FOLIO_FLAG(folio, name)                                                                    \
	((folio)->flags >> bpf_core_enum_value(enum pageflags, PG_##name) & 1)

/* The folio is locked, under writeback, or still in a per-CPU batch and not on the LRU yet. */
static __always_inline bool cache_ext_folio_is_busy(struct folio *folio)
{
	return FOLIO_FLAG(folio, locked) || FOLIO_FLAG(folio, writeback) || !FOLIO_FLAG(folio, lru);
}

static __always_inline bool cache_ext_folio_is_mapped(struct folio *folio)
{
	return folio->_mapcount.counter >= 0;
}

#define cache_ext_folio_pages(folio) bpf_cache_ext_folio_pages(folio)
#define cache_ext_folio_is_unused(folio) bpf_cache_ext_folio_unused(folio)
#define cache_ext_current_task() ((u32)bpf_get_current_pid_tgid())
#define cache_ext_clock_ns() bpf_ktime_get_ns()
#define cache_ext_random() bpf_get_prandom_u32()
#define cache_ext_add(pointer, value) ((void)__sync_fetch_and_add(pointer, value))

#endif
