/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of latencies. With 32 buckets per doubling, a percentile is exact within 3%. */
#ifndef KERNEL_GUEST_LATENCY_H
#define KERNEL_GUEST_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#define LATENCY_STEPS 32
#define LATENCY_BUCKETS (60 * LATENCY_STEPS)

struct latency {
	atomic_ullong count[LATENCY_BUCKETS];
};

static inline unsigned latency_bucket(uint64_t ns)
{
	unsigned shift = 0;

	while (ns >> shift >= 2 * LATENCY_STEPS)
		shift++;
	return shift * LATENCY_STEPS + (unsigned)(ns >> shift);
}

/* Returns the middle of a bucket's range of latencies. */
static inline uint64_t latency_of_bucket(unsigned bucket)
{
	unsigned shift = bucket < 2 * LATENCY_STEPS ? 0 : bucket / LATENCY_STEPS - 1;
	uint64_t low = (uint64_t)(bucket - shift * LATENCY_STEPS) << shift;

	return low + ((1ull << shift) >> 1);
}

static inline void latency_add(struct latency *latency, uint64_t ns)
{
	atomic_fetch_add_explicit(&latency->count[latency_bucket(ns)], 1, memory_order_relaxed);
}

/* Returns the latency that `share` of the recorded latencies do not exceed; 0 if there are none. */
static inline uint64_t latency_percentile(struct latency *latency, double share)
{
	uint64_t total = 0, seen = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		total += latency->count[i];
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		seen += latency->count[i];
		if (total && (double)seen >= share * (double)total)
			return latency_of_bucket(i);
	}
	return 0;
}

static inline void latency_clear(struct latency *latency)
{
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		latency->count[i] = 0;
}

#endif
