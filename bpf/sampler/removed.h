/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reports pages that leave the page cache without reclaim: pages of files that are truncated or
 * removed, and pages that are dropped on request. The agent removes them from its simulated caches.
 */
#ifndef CACHEPILOT_SAMPLER_REMOVED_H
#define CACHEPILOT_SAMPLER_REMOVED_H

#include "folio.h"
#include "pages.h"

/* Maximum number of folios in one batch, in all of these kernels. */
#define MAX_BATCH 31

/* Reports the pages of the folio that are in the sample of the cgroup that it is charged to. */
__attribute__((noinline)) int folio_gone(u64 *address)
{
	void *folio = address ? (void *)*address : NULL;
	struct address_space *mapping;
	struct sampling sampling = {};
	struct event *event = &sampling.event;
	struct cgroup_entry *entry;
	struct inode *host;

	/* Shared memory does not count as page cache. */
	if (folio_has_flag(folio, bpf_core_enum_value(enum pageflags, PG_swapbacked)))
		return 0;
	event->cgroup = owner_of(folio);
	entry = entry_of(event->cgroup);
	if (!entry || !entry->threshold)
		return 0;
	mapping = mapping_of(folio);
	host = BPF_CORE_READ(mapping, host);
	event->time_ns = bpf_ktime_get_ns();
	event->inode = BPF_CORE_READ(host, i_ino);
	event->device = BPF_CORE_READ(host, i_sb, s_dev);
	event->generation = BPF_CORE_READ(host, i_generation);
	event->task = (u32)bpf_get_current_pid_tgid();
	event->flags = EVENT_REMOVAL;
	sample_pages(&sampling, index_of(folio), pages_of(folio), entry->threshold);
	return 0;
}

static __always_inline int removed_alone(void *folio)
{
	u64 address = (u64)folio;

	return folio_gone(&address);
}

/* Truncation removes folios in batches. */
SEC("fentry/delete_from_page_cache_batch")
int BPF_PROG(folios_removed, struct address_space *mapping, void *batch)
{
	u64 folios, folio = 0;
	u8 count;

	if (bpf_core_field_exists(struct folio_batch, folios)) {
		count = BPF_CORE_READ((struct folio_batch *)batch, nr);
		folios = (u64)batch + bpf_core_field_offset(struct folio_batch, folios);
	} else {
		count = BPF_CORE_READ((struct pagevec *)batch, nr);
		folios = (u64)batch + bpf_core_field_offset(struct pagevec, pages);
	}
	for (u32 i = 0; i < MAX_BATCH && i < count; i++) {
		bpf_probe_read_kernel(&folio, sizeof(folio), (void *)(folios + i * sizeof(folio)));
		folio_gone(&folio);
	}
	return 0;
}

#endif
