/* SPDX-License-Identifier: Apache-2.0 */
/* A policy that only creates a list. The kernel must refuse to attach it. */
#include "test_policy.h"

struct incomplete_state {
	u64 list;
};

POLICY_STATE(struct incomplete_state);

CACHE_EXT_HOOK(s32, incomplete_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

CACHE_EXT_OPS(incomplete, .init = HOOK(incomplete_init));
