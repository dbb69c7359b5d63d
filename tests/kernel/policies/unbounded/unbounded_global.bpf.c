/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Global functions that each call the next one many times. The verifier checks each one only once.
 */
#include "unbounded.h"

#define TIMES 4000

__attribute__((noinline)) int innermost(u64 x)
{
	for (u64 i = 0; i < TIMES; i++)
		STATE->sum += x;
	return 0;
}

__attribute__((noinline)) int middle(u64 x)
{
	for (u64 i = 0; i < TIMES; i++)
		innermost(x);
	return 0;
}

static void misdeed(void)
{
	for (u64 i = 0; i < TIMES; i++)
		middle(i);
}
