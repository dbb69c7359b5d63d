/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that watch a cgroup, with the rights of the task that runs them. */
#include "test_policy.h"

extern int bpf_cache_ext_watch(u64 cgroup_id, u64 threshold) __ksym;
extern int bpf_cache_ext_unwatch(u64 cgroup_id) __ksym;

SEC("syscall")
int watch(u64 *cgroup_id)
{
	return bpf_cache_ext_watch(*cgroup_id, 0);
}

SEC("syscall")
int unwatch(u64 *cgroup_id)
{
	return bpf_cache_ext_unwatch(*cgroup_id);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
