/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a long key in a map: one instruction, but the whole key is hashed. */
#include "unbounded.h"

struct two_pages {
	u8 bytes[8192];
};

struct {
	__uint(type, 1); /* BPF_MAP_TYPE_HASH */
	__uint(max_entries, 1);
	__type(key, struct two_pages);
	__type(value, u64);
} values SEC(".maps");

static struct two_pages sought;

static void misdeed(void)
{
	if (bpf_map_lookup_elem(&values, &sought))
		STATE->sum++;
}
