/* SPDX-License-Identifier: Apache-2.0 */
/* A may_goto loop, which the kernel ends after 8 million iterations. */
#include "unbounded.h"

/* BPF_JMP | BPF_JCOND, with the distance to the label in instructions. */
#define MAY_GOTO(label)                                                                            \
	asm volatile goto("1: .byte 0xe5; .byte 0; .long ((%l[" #label                             \
			  "] - 1b - 8) / 8) & 0xffff; .short 0" ::                                 \
				  :                                                                \
			  : label)

static void misdeed(void)
{
	for (;;) {
		MAY_GOTO(out);
		STATE->sum++;
	}
out:
	return;
}
