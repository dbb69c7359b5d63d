/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cgroups of tenants. */
#ifndef CACHEPILOT_SAMPLER_TRACKED_H
#define CACHEPILOT_SAMPLER_TRACKED_H

#include "kernel_types.h"

#include <bpf/bpf_helpers.h>

#include "layout.h"

/* The agent adds each cgroup of a tenant, and sets the size of this map before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u64);
	__type(value, struct cgroup_entry);
	__uint(max_entries, 4096);
} cgroups SEC(".maps");

static __always_inline struct cgroup_entry *entry_of(u64 cgroup)
{
	return bpf_map_lookup_elem(&cgroups, &cgroup);
}

/* Whether both cgroups belong to one tenant. */
static __always_inline bool same_tenant(u64 cgroup, u64 other)
{
	struct cgroup_entry *one, *two;

	if (cgroup == other)
		return true;
	one = entry_of(cgroup);
	two = entry_of(other);
	return one && two && one->slot == two->slot;
}

#endif
