/* SPDX-License-Identifier: Apache-2.0 */
/* Global functions, each of which calls the next many times: every one is verified once only. */
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
