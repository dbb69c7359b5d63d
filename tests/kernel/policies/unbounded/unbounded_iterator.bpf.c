/* SPDX-License-Identifier: Apache-2.0 */
/* Two iterators, one in the other: 64 million million steps. */
#include "unbounded.h"

struct bpf_iter_num {
	u64 opaque;
};

extern int bpf_iter_num_new(struct bpf_iter_num *iterator, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *iterator) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *iterator) __ksym;

static void misdeed(void)
{
	struct bpf_iter_num outer, inner;

	bpf_iter_num_new(&outer, 0, MANY);
	while (bpf_iter_num_next(&outer)) {
		bpf_iter_num_new(&inner, 0, MANY);
		while (bpf_iter_num_next(&inner))
			STATE->sum++;
		bpf_iter_num_destroy(&inner);
	}
	bpf_iter_num_destroy(&outer);
}
