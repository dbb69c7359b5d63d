// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sampler of kernels that count by themselves (kernel/patches, mm/cache_ext/watch.c): says which
 * cgroups to watch, copies their counts, and reports the accesses that the kernel sampled.
 */
#include "ring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The kernel's own; its size is that of this kernel. */
struct cache_ext_counts {
	struct tenant_counts counts;
	u64 unsampled_pages;
	u64 unclocked;
};

extern int bpf_cache_ext_watch(u64 cgroup_id, u64 threshold) __ksym;
extern int bpf_cache_ext_unwatch(u64 cgroup_id) __ksym;
extern int bpf_cache_ext_counts(u64 cgroup_id, struct cache_ext_counts *counts) __ksym;

/* Cgroups of this agent: accesses of whatever else is watched are somebody else's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u64);
	__type(value, u32);
	__uint(max_entries, 4096);
} cgroups SEC(".maps");

/* Where `read_counts` leaves what it found. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct cache_ext_counts);
	__uint(max_entries, 1);
} answer SEC(".maps");

SEC("syscall")
int watch(struct watch_request *request)
{
	return bpf_cache_ext_watch(request->cgroup, request->threshold);
}

SEC("syscall")
int unwatch(struct watch_request *request)
{
	return bpf_cache_ext_unwatch(request->cgroup);
}

SEC("syscall")
int read_counts(struct watch_request *request)
{
	u32 zero = 0;
	struct cache_ext_counts *counts = bpf_map_lookup_elem(&answer, &zero);

	return counts ? bpf_cache_ext_counts(request->cgroup, counts) : -1;
}

SEC("tp_btf/cache_ext_access")
int BPF_PROG(sampled, u64 cgroup, struct inode *inode, u64 index, u32 flags)
{
	struct event event = {};

	if (!bpf_map_lookup_elem(&cgroups, &cgroup))
		return 0;
	event.time_ns = bpf_ktime_get_ns();
	event.cgroup = cgroup;
	event.inode = inode->i_ino;
	event.index = index;
	event.device = inode->i_sb->s_dev;
	event.generation = inode->i_generation;
	event.task = (u32)bpf_get_current_pid_tgid();
	event.flags = flags;
	report(&event);
	return 0;
}
