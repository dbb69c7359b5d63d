/* SPDX-License-Identifier: Apache-2.0 */
/* A tracing program that calls a function for policies. The verifier must reject it. */
#include "test_policy.h"

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(outsider, struct folio *folio)
{
	return bpf_cache_ext_list_del(folio);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
