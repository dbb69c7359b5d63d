/* SPDX-License-Identifier: Apache-2.0 */
/* As unbounded_again, with a function of the published interface. */
#define WHEN_REMOVING
#include "unbounded.h"

#define NEVER 12345

struct cache_ext_list_node {
	struct folio *folio;
};

extern int bpf_cache_ext_list_sample(u64 list, struct cache_ext_eviction_ctx *request,
				     s64 (*fn)(struct cache_ext_list_node *node),
				     u32 sample_size) __ksym;

static s64 keep(struct cache_ext_list_node *node)
{
	return 0;
}

static void misdeed(void)
{
	while (bpf_cache_ext_list_sample(1, NULL, keep, 1) != NEVER)
		;
}
