/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a key in a trie, which may have one node for each bit of the key. */
#include "unbounded.h"

struct prefix {
	u32 bits;
	u8 bytes[256];
};

struct {
	__uint(type, 11);     /* BPF_MAP_TYPE_LPM_TRIE */
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__uint(max_entries, 4096);
	__type(key, struct prefix);
	__type(value, u64);
} values SEC(".maps");

static struct prefix sought;

static void misdeed(void)
{
	if (bpf_map_lookup_elem(&values, &sought))
		STATE->sum++;
}
