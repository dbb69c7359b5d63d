/* SPDX-License-Identifier: Apache-2.0 */
/* Continues as another program, which the verifier cannot check here. */
#include "test_policy.h"

struct unbounded_state {
	u64 list;
};

POLICY_STATE(struct unbounded_state);

struct {
	__uint(type, 3); /* BPF_MAP_TYPE_PROG_ARRAY */
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} programs SEC(".maps");

CACHE_EXT_HOOK(s32, unbounded_init, struct mem_cgroup *memcg)
{
	STATE->list = bpf_cache_ext_list_create(memcg);
	return STATE->list ? 0 : -ENOMEM;
}

SEC("struct_ops/unbounded_folio_added")
void unbounded_folio_added(u64 *arguments)
{
	bpf_tail_call(arguments, &programs, 0);
}

CACHE_EXT_HOOK(void, unbounded_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	evict_oldest(STATE->list, request);
}

CACHE_EXT_OPS(unbounded, .init = HOOK(unbounded_init), .folio_added = HOOK(unbounded_folio_added),
	      .evict_folios = HOOK(unbounded_evict_folios));
