/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the counts of the kernel so far as one line of JSON on stdout. */
#ifndef KERNEL_GUEST_COUNTERS_H
#define KERNEL_GUEST_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Sources of the counts. If `cgroup` is empty, the files of a cgroup are left out. */
struct counters {
	char cgroup[256];
	char device_stat[128];
	const atomic_ullong *uncached_reads; /* NULL: not counted */
	struct counters_printer *printer;    /* NULL: this process prints */
};

/* Sets the cgroup, and the disk `file_device`, whose reads and sectors are counted. */
void counters_of(struct counters *counters, const char *cgroup, dev_t file_device);

/*
 * Starts another process, which prints the lines from now on and ends with this process. Call it
 * before join_cgroup(), when all other fields of `counters` are set. The memory for reading the
 * counters and for writing the lines is then not charged to the cgroup. Otherwise it would change
 * the size of the cgroup's page cache, and the policy would be asked to evict the dirty pages of
 * the lines.
 */
void counters_outside(struct counters *counters);

/*
 * Prints a line with the name `at`. Only with `whole` it contains memory.stat and cpu.stat. Reading
 * memory.stat makes the kernel update the statistics on which reclaim bases its decisions, which
 * changes what is measured.
 */
void counters_print(const struct counters *counters, const char *at, uint64_t accesses, bool whole);

uint64_t monotonic_ns(void);

/* Moves this process to the cgroup, which is charged for its memory from now on. */
void join_cgroup(const char *cgroup);

/* Prints one line on stderr and exits with status 1. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
