/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of an iterator in init that have few instructions, but copy a page by a helper 1,000 times
 * each.
 */
#define WHEN_BEGINNING
#include "unbounded.h"

#define COPIES 1000
#define COPY 4096

struct bpf_iter_cache_ext_num {
	u64 opaque;
};

extern int bpf_iter_cache_ext_num_new(struct bpf_iter_cache_ext_num *it, int start, int end) __ksym;
extern int *bpf_iter_cache_ext_num_next(struct bpf_iter_cache_ext_num *it) __ksym;
extern void bpf_iter_cache_ext_num_destroy(struct bpf_iter_cache_ext_num *it) __ksym;

static u8 from[COPY], to[COPY];

static void misdeed(void)
{
	struct bpf_iter_cache_ext_num it;

	bpf_iter_cache_ext_num_new(&it, 0, MANY);
	while (bpf_iter_cache_ext_num_next(&it))
		for (int i = 0; i < COPIES; i++)
			bpf_probe_read_kernel(to, COPY, from);
	bpf_iter_cache_ext_num_destroy(&it);
}
