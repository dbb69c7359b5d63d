/* SPDX-License-Identifier: Apache-2.0 */
/* A hook that the verifier can follow to its end, but that has too many instructions. */
#include "unbounded.h"

#ifndef ROUNDS
#define ROUNDS 20000
#endif

static void misdeed(void)
{
	for (u64 i = 0; i < ROUNDS; i++)
		cache_ext_add(&STATE->sum, i);
}
