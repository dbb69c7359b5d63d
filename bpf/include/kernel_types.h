/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that a policy touches, as minimal declarations that CO-RE relocates against
 * the running kernel's BTF, instead of a generated vmlinux.h of three megabytes.
 */
#ifndef CACHE_EXT_KERNEL_TYPES_H
#define CACHE_EXT_KERNEL_TYPES_H

#include "integers.h"

#define NULL ((void *)0)
#define ENOMEM 12

/* libbpf's helper declarations only name this enumeration, which vmlinux.h would define. */
enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC
};

/* The bits of folio flags; only the names matter, CO-RE brings the kernel's numbers. */
enum pageflags {
	PG_locked,
	PG_writeback,
	PG_lru
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;
struct folio {
	unsigned long flags;
	atomic_t _mapcount;
};
/* Nothing in it is accessed, but a mere name would not match the kernel's functions. */
struct mem_cgroup {
};

struct cache_ext_eviction_ctx {
	u64 nr_requested;
	u64 nr_proposed;
};

struct cache_ext_ops {
	s32 (*init)(struct mem_cgroup *memcg);
	void (*exit)(struct mem_cgroup *memcg);
	void (*evict_folios)(struct cache_ext_eviction_ctx *ctx, struct mem_cgroup *memcg);
	void (*folio_added)(struct folio *folio);
	void (*folio_accessed)(struct folio *folio, bool first);
	void (*folio_removed)(struct folio *folio, bool evicted);
	bool (*admit_folio)(u64 page_key);
	u64 cgroup_id; /* set by the loader before the table is registered */
	char name[32];
	u64 flags; /* as those of policies published with cache_ext, see compat/ */
	void (*folio_advised)(struct folio *folio, u32 advice);
	void (*folio_split)(struct folio *folio, struct folio *split_off);
	void (*folio_counted)(struct folio *folio, u32 accesses);
};

#pragma clang attribute pop

#endif
