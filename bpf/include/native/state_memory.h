/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of an instance with the state of its policy. A state with room for a large capacity, such
 * as a sketch, is mapped, so the kernel allocates its pages as they are used. Hundreds of small
 * instances then do not use memory that only a large one needs.
 */
#ifndef CACHE_EXT_NATIVE_STATE_MEMORY_H
#define CACHE_EXT_NATIVE_STATE_MEMORY_H

#include "page_cache.h"
#include <sys/mman.h>
#include <unistd.h>

#define CX_STATE_BYTES (cx_STATE_WORD * sizeof(u64) + cx_state_bytes)
#define CX_SIM_BYTES (sizeof(struct cx_sim) + CX_STATE_BYTES)
/*
 * Instances of at least this size are mapped. For smaller ones whole pages would cost more memory
 * than they save.
 */
#define CX_MAPPED_BYTES (64u << 10)
#define CX_LEAST_PAGE_BYTES 4096

static inline bool cx_sim_is_mapped(void)
{
	return CX_SIM_BYTES >= CX_MAPPED_BYTES;
}

/* Returns zeroed memory, or NULL if out of memory. */
static struct cx_sim *cx_allocate_sim(void)
{
	void *memory;

	if (!cx_sim_is_mapped())
		return calloc(1, CX_SIM_BYTES);
	memory = mmap(NULL, CX_SIM_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	/*
	 * Huge pages would allocate more memory than is used. If madvise() fails, the instance only
	 * takes more memory.
	 */
	madvise(memory, CX_SIM_BYTES, MADV_NOHUGEPAGE);
	return memory;
}

static void cx_release_sim(struct cx_sim *sim)
{
	if (cx_sim_is_mapped())
		munmap(sim, CX_SIM_BYTES);
	else
		free(sim);
}

/* Bytes of the state; if it is mapped, only those that are in memory. */
static u64 cx_state_memory(const struct cx_sim *sim)
{
	u8 in_memory[CX_SIM_BYTES / CX_LEAST_PAGE_BYTES + 1];
	u64 page_bytes = (u64)sysconf(_SC_PAGESIZE);
	u64 bytes = 0;

	if (!cx_sim_is_mapped() || mincore((void *)sim, CX_SIM_BYTES, in_memory))
		return CX_STATE_BYTES;
	for (u64 page = 0; page * page_bytes < CX_SIM_BYTES; page++)
		bytes += in_memory[page] & 1 ? page_bytes : 0;
	return bytes > sizeof(*sim) ? bytes - sizeof(*sim) : 0;
}

#endif
