/* SPDX-License-Identifier: Apache-2.0 */
/* Iterates a list in an endless loop in folio_removed, where no folios are shown. */
#define WHEN_REMOVING
#include "unbounded.h"

#define NEVER 12345

static s64 keep(struct folio *folio, void *data)
{
	return CACHE_EXT_KEEP;
}

/* If the loop did more, the verifier might happen to see that it does not end. */
static void misdeed(void)
{
	while (bpf_cache_ext_list_iterate(1, NULL, keep, NULL, NULL) != NEVER)
		;
}
