/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accessors for the fields of a folio, in whichever form the running kernel has them. Which fields
 * a kernel has is known when the program is loaded; the verifier removes the branches that read the
 * others.
 */
#ifndef CACHEPILOT_SAMPLER_FOLIO_H
#define CACHEPILOT_SAMPLER_FOLIO_H

#include "kernel_types.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>

#define MEMCG_DATA_FLAGS 0x3UL
#define MEMCG_DATA_NOTES 0x7ffUL /* the flags and the notes of cache_ext */

static __always_inline bool folio_has_flag(void *folio, u64 flag)
{
	unsigned long flags;

	if (bpf_core_field_exists(struct folio___flags_struct, flags.f))
		flags = BPF_CORE_READ((struct folio___flags_struct *)folio, flags.f);
	else if (bpf_core_field_exists(struct folio___flags_word, flags))
		flags = BPF_CORE_READ((struct folio___flags_word *)folio, flags);
	else
		flags = BPF_CORE_READ((struct page *)folio, flags);
	return flags & 1UL << flag;
}

static __always_inline struct address_space *mapping_of(void *folio)
{
	if (bpf_core_field_exists(struct folio, mapping))
		return BPF_CORE_READ((struct folio *)folio, mapping);
	return BPF_CORE_READ((struct page *)folio, mapping);
}

static __always_inline u64 index_of(void *folio)
{
	if (bpf_core_field_exists(struct folio, index))
		return BPF_CORE_READ((struct folio *)folio, index);
	return BPF_CORE_READ((struct page *)folio, index);
}

static __always_inline u64 pages_of(void *folio)
{
	void *tail;

	if (!folio_has_flag(folio, bpf_core_enum_value(enum pageflags, PG_head)))
		return 1;
	if (bpf_core_field_exists(struct folio___nr_pages, _nr_pages))
		return BPF_CORE_READ((struct folio___nr_pages *)folio, _nr_pages);
	if (bpf_core_field_exists(struct folio___folio_nr_pages, _folio_nr_pages))
		return BPF_CORE_READ((struct folio___folio_nr_pages *)folio, _folio_nr_pages);
	tail = folio + bpf_core_type_size(struct page);
	return BPF_CORE_READ((struct page *)tail, compound_nr);
}

/* Whether the kernel has the fields that owner_of() reads. */
static __always_inline bool tells_owners(void)
{
	return (bpf_core_field_exists(struct folio, memcg_data) ||
		bpf_core_field_exists(struct page, memcg_data)) &&
	       bpf_core_field_exists(struct mem_cgroup, css.cgroup) &&
	       bpf_core_field_exists(struct cgroup, kn) &&
	       bpf_core_field_exists(struct kernfs_node, id);
}

/* The id of the cgroup that the folio is charged to; 0 for none. */
static __always_inline u64 owner_of(void *folio)
{
	bool notes = bpf_core_field_exists(struct mem_cgroup___cache_ext, cache_ext);
	struct mem_cgroup *memcg;
	u64 data;

	if (bpf_core_field_exists(struct folio, memcg_data))
		data = BPF_CORE_READ((struct folio *)folio, memcg_data);
	else
		data = BPF_CORE_READ((struct page *)folio, memcg_data);
	data &= notes ? ~MEMCG_DATA_NOTES : ~MEMCG_DATA_FLAGS;
	if (!data)
		return 0;
	memcg = (struct mem_cgroup *)data;
	if (bpf_core_field_exists(struct obj_cgroup, is_root))
		memcg = BPF_CORE_READ((struct obj_cgroup *)data, memcg);
	return BPF_CORE_READ(memcg, css.cgroup, kn, id);
}

#endif
