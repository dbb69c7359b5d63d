/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FIFO that uses only the published interface: additions, deletions and iteration without options.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cache_ext_lib.bpf.h"
#include "dir_watcher.bpf.h"

char _license[] SEC("license") = "GPL";

static u64 queue;

/* Number of calls of the published interface that failed or returned the wrong result. */
SEC(".data.failures") u64 failures;

static bool is_ours(struct folio *folio)
{
	return folio->mapping && folio->mapping->host &&
	       inode_in_watchlist(folio->mapping->host->i_ino);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(queue_init, struct mem_cgroup *memcg)
{
	queue = bpf_cache_ext_ds_registry_new_list(memcg);
	return queue ? 0 : -1;
}

void BPF_STRUCT_OPS(queue_added, struct folio *folio)
{
	if (is_ours(folio) && bpf_cache_ext_list_add_tail(queue, folio))
		__sync_fetch_and_add(&failures, 1);
}

void BPF_STRUCT_OPS(queue_gone, struct folio *folio)
{
	if (is_ours(folio) && bpf_cache_ext_list_del(folio))
		__sync_fetch_and_add(&failures, 1);
}

static int take_clean(int idx, struct cache_ext_list_node *node)
{
	struct folio *folio = node->folio;

	if (idx < 64 && (!folio_test_uptodate(folio) || !folio_test_lru(folio) ||
			 folio_test_dirty(folio) || folio_test_writeback(folio)))
		return CACHE_EXT_CONTINUE_ITER;
	return CACHE_EXT_EVICT_NODE;
}

void BPF_STRUCT_OPS(queue_evict, struct cache_ext_eviction_ctx *request, struct mem_cgroup *memcg)
{
	int ended = bpf_cache_ext_list_iterate(memcg, queue, take_clean, request);

	if (ended < 0 || (request->nr_folios_to_evict == request->request_nr_folios_to_evict) !=
				 (ended == CACHE_EXT_EVICT_ARRAY_FILLED))
		__sync_fetch_and_add(&failures, 1);
}

SEC(".struct_ops.link")
struct cache_ext_ops published_fifo_ops = {
	.init = (void *)queue_init,
	.evict_folios = (void *)queue_evict,
	.folio_added = (void *)queue_added,
	.folio_evicted = (void *)queue_gone,
};
