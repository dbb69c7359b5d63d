/* SPDX-License-Identifier: Apache-2.0 */
/* A hook that the verifier can follow to its end, but that takes too long. */
#include "unbounded.h"

static void misdeed(void)
{
	for (u64 i = 0; i < 20000; i++)
		cache_ext_add(&STATE->sum, i);
}
