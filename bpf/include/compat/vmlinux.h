/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that published cache_ext policies use, under their names in the header that
 * bpftool generates. CO-RE relocates them against the running kernel. A header dumped from the
 * patched kernel works as well.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include "../integers.h"

typedef u8 uint8_t;
typedef u16 uint16_t;
typedef u32 uint32_t;
typedef u64 uint64_t;
typedef s32 int32_t;
typedef s64 int64_t;
typedef unsigned long uintptr_t;
typedef unsigned long size_t;
typedef long ssize_t;
typedef long long loff_t;
typedef int pid_t;
typedef u32 dev_t;
typedef unsigned short umode_t;

/* The kernel's UAPI fixes the numbers of these enumerations. */
enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC,
	BPF_MAP_TYPE_HASH,
	BPF_MAP_TYPE_ARRAY,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_BLOOM_FILTER = 30
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_LOCK = 4
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_NO_COMMON_LRU = 2,
	BPF_F_MMAPABLE = 1024
};

/* Only the names matter: CO-RE inserts the numbers of the kernel. */
enum pageflags {
	PG_locked,
	PG_writeback,
	PG_referenced,
	PG_uptodate,
	PG_dirty,
	PG_lru,
	PG_head,
	PG_active,
	PG_reclaim,
	PG_unevictable
};

struct bpf_spin_lock {
	__u32 val;
};

struct bpf_iter_cache_ext_num {
	__u64 __opaque[1];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct super_block {
	dev_t s_dev;
};

struct inode {
	umode_t i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	loff_t i_size;
	u32 i_generation;
};

struct dentry {
	struct dentry *d_parent;
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
};

struct address_space {
	struct inode *host;
	unsigned long nrpages;
};

struct folio {
	unsigned long flags;
	struct address_space *mapping;
	unsigned long index;
	atomic_t _mapcount;
	atomic_t _refcount;
	unsigned int _folio_nr_pages;
};

struct page_counter {
	unsigned long max;
};

struct mem_cgroup {
	struct page_counter memory;
};

struct task_struct {
	pid_t pid;
	pid_t tgid;
	struct task_struct *group_leader;
	char comm[16];
};

struct cache_ext_eviction_ctx {
	u64 nr_requested;
	u64 nr_proposed;
};

struct cache_ext_list_node {
	struct folio *folio;
};

struct cache_ext_ops {
	s32 (*init)(struct mem_cgroup *memcg);
	void (*exit)(struct mem_cgroup *memcg);
	void (*evict_folios)(struct cache_ext_eviction_ctx *ctx, struct mem_cgroup *memcg);
	void (*folio_added)(struct folio *folio);
	void (*folio_accessed)(struct folio *folio, bool first);
	void (*folio_removed)(struct folio *folio, bool evicted);
	bool (*admit_folio)(u64 page_key);
	u64 cgroup_id; /* set by the loader before the table is registered, as are the flags */
	char name[32];
	u64 flags;
};

#pragma clang attribute pop

/* Written by policies and read by the kernel. Its layout is fixed and not relocated. */
struct cache_ext_iterate_opts {
	u64 continue_list;
	u64 continue_mode;
	u64 evict_list;
	u64 evict_mode;
	u64 nr_folios_continue;
	u64 nr_folios_evict;
};

#endif
