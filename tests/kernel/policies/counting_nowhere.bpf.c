/* SPDX-License-Identifier: Apache-2.0 */
/* A program that requests the counts of a watched cgroup, but passes NULL for them. */
#include "test_policy.h"

/* Only the name of this struct matters. */
struct cache_ext_counts {
	u64 first;
};

extern int bpf_cache_ext_counts(u64 cgroup_id, struct cache_ext_counts *counts) __ksym;

SEC("syscall")
int count(u64 *cgroup_id)
{
	return bpf_cache_ext_counts(*cgroup_id, NULL);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
