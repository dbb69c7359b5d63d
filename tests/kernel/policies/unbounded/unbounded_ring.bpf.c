/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf_user_ringbuf_drain(), which calls back for each sample that user space put into the buffer.
 */
#include "unbounded.h"

struct {
	__uint(type, 31); /* BPF_MAP_TYPE_USER_RINGBUF */
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

static long take(struct bpf_dynptr *sample, void *data)
{
	STATE->sum++;
	return 0;
}

static void misdeed(void)
{
	bpf_user_ringbuf_drain(&ring, take, NULL, 0);
}
