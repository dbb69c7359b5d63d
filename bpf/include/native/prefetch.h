/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The API of readahead policies for the native build. The Rust code simulates the page cache. It
 * calls the hooks through a table of functions, and the API calls back to learn which pages are
 * cached.
 */
#ifndef CACHE_EXT_NATIVE_PREFETCH_H
#define CACHE_EXT_NATIVE_PREFETCH_H

#include "types.h"
#include "policy_manifest.h"

/* The data of one simulated instance. The Rust code declares the same layout. */
struct cx_prefetch_instance {
	void *state;
	const u32 *tunables;
	void *cache;
	u64 (*cached_before)(void *cache, const struct cache_ext_window_ctx *window);
	u64 (*cached_after)(void *cache, const struct cache_ext_window_ctx *window);
	void *queue;
	int (*prefetch)(void *queue, const struct cache_ext_window_ctx *window, u64 start,
			u32 size);
	u32 task;
};

static __thread struct cx_prefetch_instance *cx_prefetch_self;

/* Stays 0 unless POLICY_STATE is used. */
static const u64 cx_prefetch_state_bytes;

#define POLICY_STATE(type)                                                                         \
	typedef type cx_prefetch_state_t;                                                          \
	static const u64 cx_prefetch_state_bytes = sizeof(type);                                   \
	_Static_assert(_Alignof(type) <= 8, "state is aligned to 8 bytes")
#define STATE ((cx_prefetch_state_t *)cx_prefetch_self->state)
#define TUNABLE(field) (((const struct policy_tunables *)cx_prefetch_self->tunables)->field)

#define CACHE_EXT_HOOK(ret, name, args...) static ret name(args)
#define HOOK(name) (name)
#define CACHE_EXT_PREFETCH_OPS(policy, hooks...)                                                   \
	static const struct cache_ext_prefetch_ops cx_prefetch_ops = {.name = #policy, hooks}

#define cache_ext_add(pointer, value) ((void)(*(pointer) += (value)))
#define cache_ext_zero() 0u

static inline u32 cache_ext_current_task(void)
{
	return cx_prefetch_self->task;
}

static inline u64 bpf_cache_ext_cached_before(const struct cache_ext_window_ctx *window)
{
	return cx_prefetch_self->cached_before(cx_prefetch_self->cache, window);
}

static inline u64 bpf_cache_ext_cached_after(const struct cache_ext_window_ctx *window)
{
	return cx_prefetch_self->cached_after(cx_prefetch_self->cache, window);
}

static inline int bpf_cache_ext_prefetch(const struct cache_ext_window_ctx *window, u64 start,
					 u32 size)
{
	return cx_prefetch_self->prefetch(cx_prefetch_self->queue, window, start, size);
}

#endif
