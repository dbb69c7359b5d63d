/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lists that use only the published interface. Checks what each mode of an iteration does to
 * them.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cache_ext_lib.bpf.h"
#include "dir_watcher.bpf.h"

char _license[] SEC("license") = "GPL";

struct page {
	u64 inode;
	u64 index;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u64);
	__type(value, u64);
	__uint(max_entries, 4000000);
} uses SEC(".maps");

/* The loader sets the size, as for the ghost maps of published policies. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct page);
	__type(value, u8);
	__uint(map_flags, BPF_F_NO_COMMON_LRU);
} left SEC(".maps");

struct totals {
	struct bpf_spin_lock lock;
	u64 requests;
	u64 pages;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct totals);
	__uint(max_entries, 1);
} totals SEC(".maps");

const volatile u64 cache_size = 0;
static u64 lists[2];
SEC(".data.failures") u64 failures;

static void expect(bool what)
{
	if (!what)
		__sync_fetch_and_add(&failures, 1);
}

static struct page page_of(struct folio *folio)
{
	return (struct page){.inode = folio->mapping->host->i_ino, .index = folio_index(folio)};
}

/* A syscall program, as user space runs in published policies. */
SEC("syscall") int forget(void)
{
	int i;

	bpf_for(i, 0, 2) lists[i] = 0;
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(two_init, struct mem_cgroup *memcg)
{
	int i;

	bpf_for(i, 0, 2)
	{
		u64 list = bpf_cache_ext_ds_registry_new_list(memcg);

		if (!list)
			return -1;
		lists[i & 1] = list;
	}
	return cache_size ? 0 : -1;
}

void BPF_STRUCT_OPS(two_added, struct folio *folio)
{
	struct page page = page_of(folio);
	u64 key = (u64)folio;
	u64 none = 0;

	bool again = !bpf_map_delete_elem(&left, &page);

	expect(!bpf_map_update_elem(&uses, &key, &none, BPF_ANY));
	if (again)
		expect(!bpf_cache_ext_list_add(lists[1], folio));
	else
		expect(!bpf_cache_ext_list_add_tail(lists[0], folio));
	if (again)
		expect(!bpf_cache_ext_list_move(lists[1], folio, true));
}

void BPF_STRUCT_OPS(two_accessed, struct folio *folio)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	u64 key = (u64)folio;
	u64 *count = bpf_map_lookup_elem(&uses, &key);

	expect(BPF_CORE_READ(task, pid) == (u32)bpf_get_current_pid_tgid());
	expect(BPF_CORE_READ(folio, mapping, host, i_ino) == folio->mapping->host->i_ino);
	if (count && *count < 3)
		__sync_fetch_and_add(count, 1);
}

void BPF_STRUCT_OPS(two_gone, struct folio *folio)
{
	struct page page = page_of(folio);
	u64 key = (u64)folio;
	u8 nothing = 0;

	bpf_map_update_elem(&left, &page, &nothing, BPF_ANY);
	bpf_map_delete_elem(&uses, &key);
}

/* A folio that was used more than once moves to the other list. Other folios are evicted. */
static int judge(int idx, struct cache_ext_list_node *node)
{
	u64 key = (u64)node->folio;
	u64 *count = bpf_map_lookup_elem(&uses, &key);

	if (!count || *count <= 1)
		return CACHE_EXT_EVICT_NODE;
	__sync_fetch_and_sub(count, 1);
	return CACHE_EXT_CONTINUE_ITER;
}

static int stop(int idx, struct cache_ext_list_node *node)
{
	return CACHE_EXT_STOP_ITER;
}

void BPF_STRUCT_OPS(two_evict, struct cache_ext_eviction_ctx *request, struct mem_cgroup *memcg)
{
	struct cache_ext_iterate_opts on = {
		.continue_list = lists[1],
		.continue_mode = CACHE_EXT_ITERATE_TAIL,
		.evict_list = CACHE_EXT_ITERATE_SELF,
		.evict_mode = CACHE_EXT_ITERATE_TAIL,
	};
	/* Candidates move to the other list. The other folios move to the head, where they were. */
	struct cache_ext_iterate_opts back = {
		.continue_mode = CACHE_EXT_ITERATE_HEAD,
		.evict_list = lists[0],
		.evict_mode = CACHE_EXT_ITERATE_HEAD,
	};
	struct cache_ext_iterate_opts wrong = {.continue_list = lists[1]};
	u32 zero = 0;
	struct totals *total = bpf_map_lookup_elem(&totals, &zero);

	if (!total)
		return;
	expect(bpf_cache_ext_list_iterate_extended(memcg, lists[0], judge, &wrong, request) < 0);
	expect(bpf_cache_ext_list_iterate(memcg, lists[0], stop, request) == CACHE_EXT_DONE_ITER);
	expect(bpf_cache_ext_list_iterate_extended(memcg, lists[0], judge, &on, request) >= 0);
	expect(on.nr_folios_evict >= request->nr_folios_to_evict);
	if (request->nr_folios_to_evict < request->request_nr_folios_to_evict)
		expect(bpf_cache_ext_list_iterate_extended(memcg, lists[1], judge, &back,
							   request) >= 0);
	expect(on.nr_folios_evict + back.nr_folios_evict >= request->nr_folios_to_evict);
	bpf_spin_lock(&total->lock);
	WRITE_ONCE(total->requests, READ_ONCE(total->requests) + 1);
	total->pages += request->nr_folios_to_evict;
	bpf_spin_unlock(&total->lock);
}

SEC(".struct_ops.link")
struct page_cache_ext_ops published_two_lists_ops = {
	.init = (void *)two_init,
	.evict_folios = (void *)two_evict,
	.folio_added = (void *)two_added,
	.folio_accessed = (void *)two_accessed,
	.folio_evicted = (void *)two_gone,
};
