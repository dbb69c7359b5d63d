/* SPDX-License-Identifier: Apache-2.0 */
/* An iterator in init, of the kind whose steps the kernel counts, made anew at its end for ever. */
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

	/* Without these the verifier happens to see that it loops. */
	if (STATE->sum == 1 || STATE->sum == 3)
		return;
	do {
		bpf_iter_cache_ext_num_new(&it, 0, 0);
		stepped = bpf_iter_cache_ext_num_next(&it);
		bpf_iter_cache_ext_num_destroy(&it);
	} while (!stepped);
}
