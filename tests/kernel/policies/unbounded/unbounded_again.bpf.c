/* SPDX-License-Identifier: Apache-2.0 */
/* Asks to be shown folios without end, in folio_removed, where none are shown. */
#define WHEN_REMOVING
#include "unbounded.h"

#define NEVER 12345

static s64 keep(struct folio *folio, void *data)
{
	return CACHE_EXT_KEEP;
}

/* With more to do in the loop, the verifier may happen to see that it does not end. */
static void misdeed(void)
{
	while (bpf_cache_ext_list_iterate(1, NULL, keep, NULL, NULL) != NEVER)
		;
}
