/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks what published policies rely on: requests come one at a time, and the kernel serves a
 * request that the policy declines.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cache_ext_lib.bpf.h"

#define SPINS 200

char _license[] SEC("license") = "GPL";

/* Set by user space: the policy declines each request. */
const volatile u64 declines = 0;

static u64 queue;
static u64 served_now;

/* Number of requests that began during another one. */
SEC(".data.failures") u64 failures;

s32 BPF_STRUCT_OPS_SLEEPABLE(alone_init, struct mem_cgroup *memcg)
{
	queue = bpf_cache_ext_ds_registry_new_list(memcg);
	return queue ? 0 : -1;
}

void BPF_STRUCT_OPS(alone_added, struct folio *folio)
{
	bpf_cache_ext_list_add_tail(queue, folio);
}

/* Takes a long time per folio. */
static int take(int idx, struct cache_ext_list_node *node)
{
	u64 sum = 0;

	for (int i = 0; i < SPINS; i++)
		sum += bpf_ktime_get_ns();
	return sum ? CACHE_EXT_EVICT_NODE : CACHE_EXT_STOP_ITER;
}

void BPF_STRUCT_OPS(alone_evict, struct cache_ext_eviction_ctx *request, struct mem_cgroup *memcg)
{
	if (declines)
		return;
	if (__sync_fetch_and_add(&served_now, 1))
		__sync_fetch_and_add(&failures, 1);
	bpf_cache_ext_list_iterate(memcg, queue, take, request);
	__sync_fetch_and_sub(&served_now, 1);
}

SEC(".struct_ops.link")
struct cache_ext_ops published_alone_ops = {
	.init = (void *)alone_init,
	.evict_folios = (void *)alone_evict,
	.folio_added = (void *)alone_added,
};
