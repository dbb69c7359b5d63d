/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The files that a published policy manages. `cachepilot policy attach --watch DIR` fills the map
 * with the files of a directory; without it the policy manages all files of the cgroup.
 */
#ifndef DIR_WATCHER_BPF_H
#define DIR_WATCHER_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* Set by the loaders of published policies; a length of 0 stands for all files. */
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
