/* SPDX-License-Identifier: Apache-2.0 */
/* bpf_for_each_map_elem() over a large map, in evict_folios. */
#define WHEN_EVICTING
#include "unbounded.h"

struct {
	__uint(type, 2); /* BPF_MAP_TYPE_ARRAY */
	__uint(max_entries, 1 << 20);
	__type(key, u32);
	__type(value, u64);
} elements SEC(".maps");

static long add(void *map, u32 *key, u64 *value, void *data)
{
	STATE->sum += *value;
	return 0;
}

static void misdeed(void)
{
	bpf_for_each_map_elem(&elements, add, NULL, 0);
}
