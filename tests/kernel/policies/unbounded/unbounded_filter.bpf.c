/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a page in a Bloom filter, which hashes the whole page for each of its hash functions. */
#include "unbounded.h"

struct page_of_bytes {
	u8 bytes[4096];
};

struct {
	__uint(type, 30); /* BPF_MAP_TYPE_BLOOM_FILTER */
	__uint(map_extra, 15);
	__uint(max_entries, 1);
	__type(value, struct page_of_bytes);
} values SEC(".maps");

static struct page_of_bytes sought;

static void misdeed(void)
{
	if (!bpf_map_peek_elem(&values, &sought))
		STATE->sum++;
}
