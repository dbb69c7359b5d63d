/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which files a published policy is for. A cgroup is limited to those of a directory by
 * `cachepilot policy attach --watch DIR`, which fills the map; otherwise all its files count.
 */
#ifndef DIR_WATCHER_BPF_H
#define DIR_WATCHER_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* What loaders of published policies set; 0: all files. */
const volatile u64 watch_dir_path_len = 0;
const volatile char watch_dir_path[128] = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, 200000);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} inode_watchlist SEC(".maps");

static inline bool inode_in_watchlist(u64 inode)
{
	return !watch_dir_path_len || bpf_map_lookup_elem(&inode_watchlist, &inode);
}

#endif
