/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that a policy uses. These minimal declarations, which CO-RE relocates
 * against the BTF of the running kernel, replace a generated vmlinux.h of three megabytes.
 */
#ifndef CACHE_EXT_KERNEL_TYPES_H
#define CACHE_EXT_KERNEL_TYPES_H

#include "integers.h"

#define NULL ((void *)0)
#define ENOMEM 12

/* Declared by vmlinux.h otherwise. The helper declarations of libbpf use no more than its name. */
enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC
};

/* Bits of the folio flags. Only the names matter: CO-RE inserts the numbers of the kernel. */
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
/* No field of it is accessed, but a forward declaration would not match the kernel's functions. */
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
	u64 flags; /* for policies published with cache_ext, see compat/; 0 otherwise */
	void (*folio_advised)(struct folio *folio, u32 advice);
	void (*folio_split)(struct folio *folio, struct folio *split_off);
	void (*folio_counted)(struct folio *folio, u32 accesses);
};

#pragma clang attribute pop

#endif
