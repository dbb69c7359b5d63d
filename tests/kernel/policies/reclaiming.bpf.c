/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that reclaim pages of a cgroup, with the rights of the task that runs them. */
#include "test_policy.h"

#define EIO 5
#define PAGES 512
#define SLACK 64
#define TOO_MANY 16385

SEC("syscall")
int reclaim_512(u64 *cgroup_id)
{
	s64 pages = bpf_cache_ext_reclaim(*cgroup_id, PAGES);

	if (pages < 0)
		return pages;
	return pages >= PAGES && pages <= PAGES + SLACK ? 0 : -EIO;
}

SEC("syscall")
int reclaim_too_many(u64 *cgroup_id)
{
	return bpf_cache_ext_reclaim(*cgroup_id, TOO_MANY);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
