/* SPDX-License-Identifier: Apache-2.0 */
/* Prints in folio_removed, which may run for hundreds of folios in a row with interrupts off. */
#define WHEN_REMOVING
#include "unbounded.h"

static void misdeed(void)
{
	bpf_printk("removed");
}
