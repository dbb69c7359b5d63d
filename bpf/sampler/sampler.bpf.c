// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts the page cache events of cgroups, and reports sampled accesses. README.md lists the attach
 * points and what each one can and cannot see.
 */
#include "folio.h"
#include "removed.h"
#include "sample.h"

#define FGP_WRITE 0x08
/*
 * The bits above FGF_ORDER_SHIFT have the size of a write as the order of a folio (fgf_set_order(),
 * since 6.6).
 */
#define FGF_ORDER_SHIFT 26
#define VM_FAULT_NOPAGE 0x100
#define VM_FAULT_LOCKED 0x200
#define S_IFMT 0170000
#define S_IFBLK 0060000
#define MAX_ERRNO 4095
#define TMPFS_MAGIC 0x01021994

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Reads: all calls that use the read path of the page cache. */

SEC("fentry/filemap_read")
int BPF_PROG(read_begin, struct kiocb *iocb, struct iov_iter *iter)
{
	struct task_state *state;
	struct file *file;
	s64 position;

	state = state_of_call();
	if (!state)
		return 0;
	file = iocb->ki_filp;
	position = iocb->ki_pos;
	state->read.first = position >> PAGE_SHIFT;
	state->read.last = (position + iter->count - 1) >> PAGE_SHIFT;
	state->read.mapping = (u64)file->f_mapping;
	state->previous = (file->f_ra.prev_pos - 1) >> PAGE_SHIFT;
	state->began_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * As in the kernel, the page in which the last read of the same open file ended is not accessed
 * again.
 */
SEC("fexit/filemap_read")
int BPF_PROG(read_end, struct kiocb *iocb, struct iov_iter *iter, s64 already, s64 result)
{
	struct task_state *state = state_of_current(false);
	u64 cgroup, first, last, now_ns, took_ns;
	struct cgroup_entry *entry;
	struct tenant_counts *of;

	if (!state || !state->read.mapping)
		return 0;
	state->read.mapping = 0;
	cgroup = bpf_get_current_cgroup_id();
	entry = entry_of(cgroup);
	of = entry ? counts_of(entry) : NULL;
	if (!of || result < 0)
		return 0;
	now_ns = bpf_ktime_get_ns();
	took_ns = now_ns - state->began_ns;
	ADD(of->read_calls, 1);
	ADD(of->read_time_ns, took_ns);
	ADD(of->latency[latency_bucket(took_ns)], 1);
	if (result <= already)
		return 0;
	first = state->read.first;
	last = (u64)(iocb->ki_pos - 1) >> PAGE_SHIFT;
	if ((s64)first == state->previous)
		first++;
	if (first <= last)
		accessed(entry, of, cgroup, iocb->ki_filp->f_mapping, first, last - first + 1, 0,
			 now_ns);
	return 0;
}

/*
 * sendfile() and splice(). Before 6.5 they end in filemap_read(), since then they have this path.
 */
SEC("fentry/filemap_splice_read")
int BPF_PROG(splice_begin, struct file *file, s64 *position, struct pipe_inode_info *pipe,
	     u64 bytes)
{
	struct task_state *state;
	s64 from = 0;

	state = state_of_call();
	if (!state)
		return 0;
	bpf_probe_read_kernel(&from, sizeof(from), position);
	state->read.first = from >> PAGE_SHIFT;
	state->read.last = (from + bytes - 1) >> PAGE_SHIFT;
	state->read.mapping = (u64)file->f_mapping;
	state->spliced_from = from;
	return 0;
}

SEC("fexit/filemap_splice_read")
int BPF_PROG(splice_end, struct file *file, s64 *position, struct pipe_inode_info *pipe, u64 bytes,
	     u32 flags, s64 result)
{
	struct task_state *state = state_of_current(false);
	u64 cgroup = bpf_get_current_cgroup_id();
	struct cgroup_entry *entry;
	struct tenant_counts *of;
	u64 first, last;

	if (!state || !state->read.mapping)
		return 0;
	state->read.mapping = 0;
	entry = entry_of(cgroup);
	of = entry ? counts_of(entry) : NULL;
	if (!of || result <= 0)
		return 0;
	first = state->read.first;
	last = (u64)(state->spliced_from + result - 1) >> PAGE_SHIFT;
	accessed(entry, of, cgroup, file->f_mapping, first, last - first + 1, 0,
		 bpf_ktime_get_ns());
	return 0;
}

/* Buffered writes: the kernel looks up the page to write to, and adds it if it is not cached. */

static __always_inline u64 pages_to_write(u32 flags)
{
	return 1ULL << (flags >> FGF_ORDER_SHIFT & 31);
}

static __always_inline int write_began(struct address_space *mapping, u64 index, u32 flags)
{
	struct task_state *state;

	state = flags & FGP_WRITE ? state_of_call() : NULL;
	if (!state)
		return 0;
	state->write.first = index;
	state->write.last = index + pages_to_write(flags) - 1;
	state->write.mapping = (u64)mapping;
	return 0;
}

static __always_inline int write_ended(struct address_space *mapping, u64 index, u32 flags,
				       u64 found)
{
	struct task_state *state;
	struct cgroup_entry *entry;
	struct tenant_counts *of;
	u64 cgroup, pages;

	if (!(flags & FGP_WRITE))
		return 0;
	cgroup = bpf_get_current_cgroup_id();
	entry = entry_of(cgroup);
	state = entry ? state_of_current(false) : NULL;
	if (!entry || !state || !state->write.mapping)
		return 0;
	state->write.mapping = 0;
	of = counts_of(entry);
	if (!of || !found || found >= (u64)-MAX_ERRNO)
		return 0;
	pages = index_of((void *)found) + pages_of((void *)found) - index;
	if (pages > pages_to_write(flags))
		pages = pages_to_write(flags);
	accessed(entry, of, cgroup, mapping, index, pages, EVENT_WRITE, bpf_ktime_get_ns());
	return 0;
}

SEC("fentry/__filemap_get_folio")
int BPF_PROG(write_begin, struct address_space *mapping, u64 index, u32 flags)
{
	return write_began(mapping, index, flags);
}

SEC("fexit/__filemap_get_folio")
int BPF_PROG(write_end, struct address_space *mapping, u64 index, u32 flags, u32 gfp, u64 found)
{
	return write_ended(mapping, index, flags, found);
}

/* Buffered writes in the newest kernels. */
SEC("fentry/__filemap_get_folio_mpol")
int BPF_PROG(write_begin_mpol, struct address_space *mapping, u64 index, u32 flags)
{
	return write_began(mapping, index, flags);
}

SEC("fexit/__filemap_get_folio_mpol")
int BPF_PROG(write_end_mpol, struct address_space *mapping, u64 index, u32 flags, u32 gfp,
	     void *policy, u64 found)
{
	return write_ended(mapping, index, flags, found);
}

/* Buffered writes in 5.15. */
SEC("fentry/pagecache_get_page")
int BPF_PROG(write_begin_old, struct address_space *mapping, u64 index, u32 flags)
{
	return write_began(mapping, index, flags);
}

SEC("fexit/pagecache_get_page")
int BPF_PROG(write_end_old, struct address_space *mapping, u64 index, u32 flags, u32 gfp, u64 found)
{
	return write_ended(mapping, index, flags, found);
}

/* Page faults of mapped files. Accesses through an existing page table entry are not seen. */

static __always_inline void mapped(struct vm_fault *vmf)
{
	u64 cgroup = bpf_get_current_cgroup_id();
	struct cgroup_entry *entry = entry_of(cgroup);
	struct tenant_counts *of = entry ? counts_of(entry) : NULL;
	struct address_space *mapping;

	if (!of)
		return;
	/* Some faults of shared memory take this path, but it does not count as page cache. */
	mapping = vmf->vma->vm_file->f_mapping;
	if (mapping->host->i_sb->s_magic != TMPFS_MAGIC)
		accessed(entry, of, cgroup, mapping, vmf->pgoff, 1, EVENT_MMAP, bpf_ktime_get_ns());
}

SEC("fexit/filemap_map_pages")
int BPF_PROG(fault_around, struct vm_fault *vmf, u64 start, u64 end, u32 result)
{
	if (result & VM_FAULT_NOPAGE)
		mapped(vmf);
	return 0;
}

SEC("fentry/filemap_fault")
int BPF_PROG(fault_begin, struct vm_fault *vmf)
{
	struct task_state *state;

	state = state_of_call();
	if (!state)
		return 0;
	state->fault.first = state->fault.last = vmf->pgoff;
	state->fault.mapping = (u64)vmf->vma->vm_file->f_mapping;
	return 0;
}

/* A fault that is to be retried is not an access yet. */
SEC("fexit/filemap_fault")
int BPF_PROG(fault_end, struct vm_fault *vmf, u32 result)
{
	struct task_state *state = state_of_current(false);

	if (!state || !state->fault.mapping)
		return 0;
	state->fault.mapping = 0;
	if (result & VM_FAULT_LOCKED)
		mapped(vmf);
	return 0;
}

/* Folios that are added and removed. */

/* Number of the pages [first, last] that a current call asked for. */
static __always_inline u64 demanded(const struct range *range, u64 mapping, u64 first, u64 last)
{
	if (range->mapping != mapping || range->first > last || range->last < first)
		return 0;
	if (range->first > first)
		first = range->first;
	if (range->last < last)
		last = range->last;
	return last - first + 1;
}

/*
 * Pages that a current call asked for are misses. All other pages of files count as readahead.
 * Metadata blocks of a file system are in the page cache of its block device, and count only if a
 * read of that device is in progress.
 */
SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(folio_added, void *folio)
{
	struct cgroup_entry *entry = entry_of(bpf_get_current_cgroup_id());
	u64 first, last, mapping, missed = 0;
	struct task_state *state;
	struct tenant_counts *of;

	of = entry ? counts_of(entry) : NULL;
	if (!of)
		return 0;
	mapping = (u64)mapping_of(folio);
	first = index_of(folio);
	last = first + pages_of(folio) - 1;
	state = state_of_current(false);
	if (state) {
		missed = demanded(&state->read, mapping, first, last);
		if (!missed)
			missed = demanded(&state->fault, mapping, first, last);
		if (!missed)
			missed = demanded(&state->write, mapping, first, last);
	}
	if (missed)
		ADD(of->misses, missed);
	if (missed == last - first + 1)
		return 0;
	if (!missed && !(state && (state->read.mapping == mapping)) &&
	    (BPF_CORE_READ((struct address_space *)mapping, host, i_mode) & S_IFMT) == S_IFBLK)
		return 0;
	ADD(of->readahead_pages, last - first + 1 - missed);
	return 0;
}

/*
 * The counts of the cgroup that the folio is charged to. Reclaim runs in the context of any task,
 * so the current cgroup may be another one.
 */
static __always_inline struct tenant_counts *counts_of_owner(void *folio)
{
	struct cgroup_entry *entry = entry_of(owner_of(folio));

	return entry ? counts_of(entry) : NULL;
}

/* Reclaim leaves a shadow entry. Truncation and dropping on request leave none. */
static __always_inline int removed(void *folio, void *shadow)
{
	struct tenant_counts *of;

	if (!shadow)
		return removed_alone(folio);
	of = counts_of_owner(folio);
	if (of)
		ADD(of->evictions, pages_of(folio));
	return 0;
}

SEC("fentry/__filemap_remove_folio")
int BPF_PROG(folio_removed, void *folio, void *shadow)
{
	return removed(folio, shadow);
}

/* Removal in 5.15. */
SEC("fentry/__delete_from_page_cache")
int BPF_PROG(removed_old, void *page, void *shadow)
{
	return removed(page, shadow);
}

SEC("fentry/workingset_refault")
int BPF_PROG(refaulted, void *folio, void *shadow)
{
	struct tenant_counts *of;

	if (folio_has_flag(folio, bpf_core_enum_value(enum pageflags, PG_swapbacked)))
		return 0;
	of = counts_of_owner(folio);
	if (of)
		ADD(of->refaults, pages_of(folio));
	return 0;
}
