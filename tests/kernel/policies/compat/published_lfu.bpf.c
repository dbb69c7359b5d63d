/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled LFU that uses only the published interface. Its counts are in a map keyed by folio. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cache_ext_lib.bpf.h"
#include "dir_watcher.bpf.h"

char _license[] SEC("license") = "GPL";

struct counts {
	u64 accesses;
	u64 inode;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u64);
	__type(value, struct counts);
	__uint(max_entries, 4000000);
} folios SEC(".maps");

static u64 pool;
SEC(".data.failures") u64 failures;
u64 evictions = 0;
const volatile u64 most_accesses = 0;

s32 BPF_STRUCT_OPS_SLEEPABLE(pool_init, struct mem_cgroup *memcg)
{
	bpf_printk("a limit of %lu pages", memcg->memory.max);
	pool = bpf_cache_ext_ds_registry_new_list(memcg);
	return pool ? 0 : -1;
}

void BPF_STRUCT_OPS(pool_added, struct folio *folio)
{
	u64 key = (u64)folio;
	struct counts counts = {.accesses = 1, .inode = folio->mapping->host->i_ino};

	if (!inode_in_watchlist(counts.inode))
		return;
	if (bpf_cache_ext_list_add_tail(pool, folio) ||
	    bpf_map_update_elem(&folios, &key, &counts, BPF_ANY))
		__sync_fetch_and_add(&failures, 1);
}

void BPF_STRUCT_OPS(pool_accessed, struct folio *folio)
{
	u64 key = (u64)folio;
	struct counts *counts = bpf_map_lookup_elem(&folios, &key);

	if (counts && (!most_accesses || counts->accesses < most_accesses))
		__sync_fetch_and_add(&counts->accesses, 1);
}

void BPF_STRUCT_OPS(pool_gone, struct folio *folio)
{
	u64 key = (u64)folio;

	bpf_map_delete_elem(&folios, &key);
	__sync_fetch_and_add(&evictions, 1);
}

static s64 frequency(struct cache_ext_list_node *node)
{
	u64 key = (u64)node->folio;
	struct counts *counts = bpf_map_lookup_elem(&folios, &key);

	if (!counts || folio_test_dirty(node->folio) || folio_test_writeback(node->folio) ||
	    !folio_test_lru(node->folio))
		return S64_MAX;
	return counts->accesses;
}

void BPF_STRUCT_OPS(pool_evict, struct cache_ext_eviction_ctx *request, struct mem_cgroup *memcg)
{
	struct sampling_options opts = {.sample_size = 16};

	if (bpf_cache_ext_list_sample(memcg, pool, frequency, &opts, request))
		__sync_fetch_and_add(&failures, 1);
}

SEC(".struct_ops.link")
struct cache_ext_ops published_lfu_ops = {
	.init = (void *)pool_init,
	.evict_folios = (void *)pool_evict,
	.folio_added = (void *)pool_added,
	.folio_accessed = (void *)pool_accessed,
	.folio_evicted = (void *)pool_gone,
};
