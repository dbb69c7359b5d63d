/* SPDX-License-Identifier: Apache-2.0 */
/* bpf_loop() in bpf_loop(), in evict_folios. */
#define WHEN_EVICTING
#include "unbounded.h"

static long step(u32 i, void *data)
{
	STATE->sum++;
	return 0;
}

static long round(u32 i, void *data)
{
	bpf_loop(MANY, step, NULL, 0);
	return 0;
}

static void misdeed(void)
{
	bpf_loop(MANY, round, NULL, 0);
}
