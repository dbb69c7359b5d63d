// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sampler for kernels that count by themselves (kernel/patches, mm/cache_ext/watch.c). It tells
 * the kernel which cgroups to watch, copies their counts, and reports the accesses that the kernel
 * sampled.
 */
#include "pages.h"
#include "removed.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The kernel's struct of this name, in the size that this version of the kernel has. */
struct cache_ext_counts {
	struct tenant_counts counts;
	u64 unsampled_pages;
	u64 unclocked;
};

extern int bpf_cache_ext_watch(u64 cgroup_id, u64 threshold) __ksym;
extern int bpf_cache_ext_unwatch(u64 cgroup_id) __ksym;
extern int bpf_cache_ext_counts(u64 cgroup_id, struct cache_ext_counts *counts) __ksym;

/* Number of pages of one call that the kernel looks at itself, CX_MAX_SAMPLED. */
#define KERNEL_SAMPLED 1024
/* A threshold that admits all pages, because the kernel has already chosen them. */
#define ALL_PAGES (~0ULL)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cache_ext_call {
	s64 pos;
	s64 prev_pos;
};

#pragma clang attribute pop

/*
 * The result of read_counts(): for each cgroup its counts, and what the kernel function returned.
 */
struct counts_answer {
	struct cache_ext_counts counts[READ_AT_ONCE];
	s64 status[READ_AT_ONCE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct counts_request);
	__uint(max_entries, 1);
} asked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct counts_answer);
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
	struct counts_request *wanted = bpf_map_lookup_elem(&asked, &zero);
	struct counts_answer *found = bpf_map_lookup_elem(&answer, &zero);

	if (!wanted || !found)
		return -1;
	for (u32 i = 0; i < READ_AT_ONCE && i < wanted->count; i++)
		found->status[i] = bpf_cache_ext_counts(wanted->cgroups[i], &found->counts[i]);
	return 0;
}

/*
 * Other programs may have cgroups watched too. Accesses of cgroups that are not tracked are
 * ignored.
 */
SEC("tp_btf/cache_ext_access")
int BPF_PROG(sampled, u64 cgroup, struct inode *inode, u64 index, u32 flags)
{
	struct sampling sampling = {};

	if (!entry_of(cgroup))
		return 0;
	fill_event(&sampling.event, cgroup, inode, flags, bpf_ktime_get_ns());
	sampling.mapping = (u64)inode->i_mapping;
	sample_page(&sampling, index, ALL_PAGES);
	return 0;
}

/* The kernel counts the pages that reclaim removes. Other removals are reported. */
SEC("fentry/__filemap_remove_folio")
int BPF_PROG(folio_removed, void *folio, void *shadow)
{
	return shadow ? 0 : removed_alone(folio);
}

/*
 * Looks at the pages of a read beyond those that the kernel looks at. The agent attaches this
 * program only while there are such reads, because it runs for each read of each cgroup.
 */
SEC("fentry/__cache_ext_read_end")
int BPF_PROG(read_rest, struct cache_ext_call *call, struct address_space *mapping, s64 pos)
{
	u64 first = call->pos >> PAGE_SHIFT;
	u64 end = (pos + (1 << PAGE_SHIFT) - 1) >> PAGE_SHIFT;
	struct cgroup_share *share;
	struct cgroup_entry *entry;
	struct sampling sampling = {};
	u64 cgroup;

	if (first == (call->prev_pos - 1) >> PAGE_SHIFT)
		first++;
	first += KERNEL_SAMPLED;
	if (pos == call->pos || first >= end)
		return 0;
	cgroup = bpf_get_current_cgroup_id();
	entry = entry_of(cgroup);
	share = bpf_map_lookup_elem(&shares, &cgroup);
	if (!entry || !entry->threshold || !share)
		return 0;
	fill_event(&sampling.event, cgroup, mapping->host, 0, bpf_ktime_get_ns());
	sampling.mapping = (u64)mapping;
	ADD(share->rest_pages, sample_pages(&sampling, first, end - first, entry->threshold));
	return 0;
}
