/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the sampler reads. CO-RE relocates these minimal declarations against
 * the BTF of the running kernel. The fields are those that all kernels since 5.15 have in common.
 * For a field that differs there is one flavour (NAME___FLAVOUR) for each form.
 */
#ifndef CACHEPILOT_SAMPLER_KERNEL_TYPES_H
#define CACHEPILOT_SAMPLER_KERNEL_TYPES_H

#include "../include/integers.h"

#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_AVAIL_DATA 0
#define BPF_RB_RING_SIZE 1
#define BPF_RB_CONS_POS 2
#define BPF_RB_HEADER_BYTES 8

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct address_space;

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	u32 i_generation;
};

struct xarray {
	void *xa_head;
};

struct address_space {
	struct inode *host;
	struct xarray i_pages;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

struct file_ra_state {
	s64 prev_pos;
};

struct file {
	struct address_space *f_mapping;
	struct file_ra_state f_ra;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
};

struct iov_iter {
	unsigned long count;
};

struct vm_area_struct {
	struct file *vm_file;
};

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct mem_cgroup {
	struct cgroup_subsys_state css;
};

/* Kernels with cache_ext have this field. */
struct mem_cgroup___cache_ext {
	void *cache_ext;
};

/* The newest kernels charge folios through an obj_cgroup; is_root was added with that change. */
struct obj_cgroup {
	struct mem_cgroup *memcg;
	bool is_root;
};

/* Since 5.16. folio.h reads these fields. */
struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long memcg_data;
};

/* The flags of a folio: flags_word before 6.18, flags_struct since then. */
struct folio___flags_word {
	unsigned long flags;
};

struct folio___flags_struct {
	struct {
		unsigned long f;
	} flags;
};

/*
 * The number of pages: _folio_nr_pages since 6.0, _nr_pages since 6.15. Before 6.0 the first tail
 * page has it.
 */
struct folio___folio_nr_pages {
	unsigned int _folio_nr_pages;
};

struct folio___nr_pages {
	unsigned int _nr_pages;
};

/* 5.15 has no folios. These fields are in the first page instead. */
struct page {
	unsigned long flags;
	struct address_space *mapping;
	unsigned long index;
	unsigned long memcg_data;
	unsigned int compound_nr;
};

struct folio_batch {
	unsigned char nr;
	void *folios[1];
};

/* A folio_batch of 5.15. */
struct pagevec {
	unsigned char nr;
	void *pages[1];
};

struct pipe_inode_info {
};

/* The values differ between kernels. */
enum pageflags {
	PG_head = 6,
	PG_swapbacked = 18,
};

#pragma clang attribute pop

struct task_struct {
};

#endif
