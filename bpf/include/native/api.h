/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Declarations and small functions of the policy API on the simulated page cache. */
#ifndef CACHE_EXT_NATIVE_API_H
#define CACHE_EXT_NATIVE_API_H

#include "page_cache.h"

/*
 * The name of an object of the code that is being compiled: the policy, or the layer below it (see
 * layer.h).
 */
#define CX_OWN(name) cx_##name

#ifndef CX_LAYERED
#define cx_STATE_WORD 0 /* word at which the state of the policy starts */
#endif

/* Stays 0 unless POLICY_STATE is used. */
static const u64 cx_state_bytes;

/*
 * The memory of a state holds other types at other times. The native build, like the kernel, is
 * therefore compiled with -fno-strict-aliasing.
 */
#define POLICY_STATE(type)                                                                         \
	typedef type CX_OWN(state_t);                                                              \
	static const u64 CX_OWN(state_bytes) = sizeof(type);                                       \
	_Static_assert(_Alignof(type) <= 8, "state is aligned to 8 bytes")
#define STATE ((CX_OWN(state_t) *)(cx_self->state + CX_OWN(STATE_WORD)))
/* The memory of a state that is not used yet takes no pages, so all have all elements. */
#define POLICY_STATE_BY_PAGES(type, array)                                                         \
	static const u64 CX_OWN(state_pages) =                                                     \
		sizeof(((type *)0)->array) / sizeof(((type *)0)->array[0]);                        \
	POLICY_STATE(type)
#define STATE_PAGES CX_OWN(state_pages)
#define POLICY_FOLIO_STATE(type)                                                                   \
	typedef type CX_OWN(folio_state_t);                                                        \
	_Static_assert(sizeof(type) == CX_OWN(FOLIO_STATE_BYTES),                                  \
		       "folio_state_bytes in policy.toml differs from the code");                  \
	_Static_assert(_Alignof(type) <= 4, "folio state is aligned to 4 bytes")
#define FOLIO_STATE(folio)                                                                         \
	((CX_OWN(folio_state_t) *)(void *)((folio)->state + CX_OWN(FOLIO_STATE_AT)))
#define TUNABLE(field) (cx_self->CX_OWN(tunables).field)

#define CACHE_EXT_HOOK(ret, name, args...) static __always_inline ret name(args)
#define CACHE_EXT_OPS(policy, hooks...)                                                            \
	static const struct cache_ext_ops CX_OWN(table) = {.name = #policy, hooks}
#define HOOK(name) (name)

#define cache_ext_folio_pages(folio) ((void)(folio), 1u)
/* A simulated folio is never under I/O and never mapped. */
#define cache_ext_folio_is_busy(folio) ((void)(folio), false)
#define cache_ext_folio_is_unused(folio) (!!((folio)->flags & CX_UNUSED))
#define cache_ext_folio_is_mapped(folio) ((void)(folio), false)
#define cache_ext_add(pointer, value) ((void)(*(pointer) += (value)))
#define cache_ext_zero() 0u

static __always_inline u64 bpf_cache_ext_capacity(u64 list)
{
	(void)list;
	return cx_self->capacity;
}

static __always_inline u64 bpf_cache_ext_page_key(const struct folio *folio)
{
	return cx_hash(folio->key);
}

static __always_inline u32 cache_ext_current_task(void)
{
	return cx_self->tasks ? cx_self->tasks[cx_self->now - cx_self->column_start] : 0;
}

/* If the trace has no times, a request takes one microsecond. */
static __always_inline u64 cache_ext_clock_ns(void)
{
	if (cx_self->times_ns)
		return cx_self->times_ns[cx_self->now - cx_self->column_start];
	return cx_self->now * 1000;
}

/* xorshift64* (Vigna, ACM TOMS 42(4), 2016), upper 32 bits. */
static __always_inline u32 cache_ext_random(void)
{
	u64 x = cx_self->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	cx_self->random = x;
	return (u32)((x * 0x2545f4914f6cdd1dull) >> 32);
}

#endif
