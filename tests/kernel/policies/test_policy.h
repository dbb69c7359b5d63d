/* SPDX-License-Identifier: Apache-2.0 */
/* What the policies of the tests use in addition to the API: the file that a folio belongs to. */
#pragma once
#include "cache_ext.bpf.h"

#define EINVAL 22

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct address_space {
	struct inode *host;
};

/* The fields of a folio that the API does not declare. */
struct folio___fields {
	struct address_space *mapping;
	unsigned long index;
};

#pragma clang attribute pop

static u64 folio_index(struct folio *folio)
{
	return ((struct folio___fields *)folio)->index;
}

static bool is_of_file(struct folio *folio, u64 device, u64 inode)
{
	struct inode *host = ((struct folio___fields *)folio)->mapping->host;

	return host->i_ino == inode && host->i_sb->s_dev == device;
}

static s64 evict_any(struct folio *folio, void *data)
{
	return CACHE_EXT_EVICT;
}

static void evict_oldest(u64 list, struct cache_ext_eviction_ctx *request)
{
	struct cache_ext_iter_opts opts = {.mode = CACHE_EXT_ITER_SIMPLE};

	bpf_cache_ext_list_iterate(list, request, evict_any, NULL, &opts);
}
