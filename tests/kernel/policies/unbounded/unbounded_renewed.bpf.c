/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates an iterator in init again and again in an endless loop. The kernel counts the steps of
 * this kind of iterator, but here none takes any.
 */
#define WHEN_BEGINNING
#include "unbounded.h"

struct bpf_iter_cache_ext_num {
	u64 opaque;
};

extern int bpf_iter_cache_ext_num_new(struct bpf_iter_cache_ext_num *it, int start, int end) __ksym;
extern int *bpf_iter_cache_ext_num_next(struct bpf_iter_cache_ext_num *it) __ksym;
extern void bpf_iter_cache_ext_num_destroy(struct bpf_iter_cache_ext_num *it) __ksym;

static void misdeed(void)
{
	struct bpf_iter_cache_ext_num it;
	bool stepped;

	/* Without this condition the verifier happens to see that the loop does not end. */
	if (STATE->sum == 1 || STATE->sum == 3)
		return;
	do {
		bpf_iter_cache_ext_num_new(&it, 0, 0);
		stepped = bpf_iter_cache_ext_num_next(&it);
		bpf_iter_cache_ext_num_destroy(&it);
	} while (!stepped);
}
