/* SPDX-License-Identifier: Apache-2.0 */
/* See store.h. */
#include "store.h"

#include <cstdio>
#include <cstdlib>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

namespace ycsb
{

void check(const rocksdb::Status &status, const char *what)
{
	if (status.ok())
		return;
	fprintf(stderr, "ycsb: %s: %s\n", what, status.ToString().c_str());
	/* Other threads may still run, so no destructors may be called. */
	_Exit(1);
}

std::unique_ptr<rocksdb::DB> open_store(const std::string &path, bool create)
{
	rocksdb::BlockBasedTableOptions table;
	rocksdb::Options options;
	rocksdb::DB *db = nullptr;

	/* Only the kernel caches data blocks. Indexes and filters stay in memory. */
	table.no_block_cache = true;
	table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
	options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
	options.allow_mmap_reads = false;
	options.use_direct_reads = false;
	options.compression = rocksdb::kNoCompression;
	options.create_if_missing = create;
	options.error_if_exists = create;
	options.write_buffer_size = 32 << 20;
	options.max_background_jobs = 2;
	check(rocksdb::DB::Open(options, path, &db), path.c_str());
	return std::unique_ptr<rocksdb::DB>(db);
}

} // namespace ycsb
