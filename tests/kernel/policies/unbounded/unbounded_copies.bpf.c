/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a map value: one instruction, but as many bytes as the value has. */
#include "unbounded.h"

struct two_pages {
	u8 bytes[8192];
};

struct {
	__uint(type, 2); /* BPF_MAP_TYPE_ARRAY */
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct two_pages);
} values SEC(".maps");

static void misdeed(void)
{
	u32 from = 0, to = 1;
	struct two_pages *value = bpf_map_lookup_elem(&values, &from);

	if (value)
		bpf_map_update_elem(&values, &to, value, 0);
}
