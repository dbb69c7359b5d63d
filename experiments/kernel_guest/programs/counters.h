/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel counted so far, printed as one line of JSON on stdout. */
#ifndef KERNEL_GUEST_COUNTERS_H
#define KERNEL_GUEST_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where to read. `cgroup` may be empty: then its files are left out. */
struct counters {
	char cgroup[256];
	char device_stat[128];
	const atomic_ullong *uncached_reads; /* NULL: not counted */
	struct counters_printer *printer;    /* NULL: this process prints */
};

/* Finds the disk that `file_device` is, for its reads and sectors. */
void counters_of(struct counters *counters, const char *cgroup, dev_t file_device);

/*
 * From now on another process prints the lines, which ends with this one. Call it before
 * join_cgroup(), with all else that `counters` has: what it takes to read the counters and to write
 * the lines is then not charged to the cgroup, whose size it would change, and whose policy would be
 * asked to evict the dirty pages of the lines.
 */
void counters_outside(struct counters *counters);

/*
 * Prints the line `at`. memory.stat is left out unless `whole`: reading it makes the kernel bring
 * the statistics up to date by which reclaim decides, which is a change of what is measured.
 */
void counters_print(const struct counters *counters, const char *at, uint64_t accesses, bool whole);

uint64_t monotonic_ns(void);

/* Writes this process into the cgroup: what it charges from now on is the cgroup's. */
void join_cgroup(const char *cgroup);

/* Prints one line on stderr and ends with status 1. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
