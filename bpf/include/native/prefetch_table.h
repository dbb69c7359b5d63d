/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of functions through which user space runs a readahead policy. Include it after the
 * policy.
 */
#ifndef CACHE_EXT_NATIVE_PREFETCH_TABLE_H
#define CACHE_EXT_NATIVE_PREFETCH_TABLE_H

/* Some compilers predefine the name of this policy as a macro for the host system. */
#undef linux

struct cx_prefetch_vtable {
	u64 (*state_bytes)(void);
	s32 (*decide)(struct cx_prefetch_instance *instance, struct cache_ext_window_ctx *window);
	void (*used)(struct cx_prefetch_instance *instance, u64 file, u64 index);
};

static u64 cx_prefetch_get_state_bytes(void)
{
	return cx_prefetch_state_bytes;
}

static s32 cx_prefetch_decide(struct cx_prefetch_instance *instance,
			      struct cache_ext_window_ctx *window)
{
	cx_prefetch_self = instance;
	return cx_prefetch_ops.decide_window(window);
}

static void cx_prefetch_used(struct cx_prefetch_instance *instance, u64 file, u64 index)
{
	cx_prefetch_self = instance;
	if (cx_prefetch_ops.page_used)
		cx_prefetch_ops.page_used(file, index);
}

#define CX_PREFETCH_CONCAT(a, b) a##b
#define CX_PREFETCH_VTABLE(name) CX_PREFETCH_CONCAT(cx_prefetcher_, name)

extern const struct cx_prefetch_vtable CX_PREFETCH_VTABLE(CACHE_EXT_POLICY);
const struct cx_prefetch_vtable CX_PREFETCH_VTABLE(CACHE_EXT_POLICY) = {
	.state_bytes = cx_prefetch_get_state_bytes,
	.decide = cx_prefetch_decide,
	.used = cx_prefetch_used,
};

#endif
