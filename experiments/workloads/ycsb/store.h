/* SPDX-License-Identifier: Apache-2.0 */
/* A RocksDB that does not cache data blocks itself, so that its reads use the page cache. */
#pragma once

#include <memory>
#include <rocksdb/db.h>
#include <string>

namespace ycsb
{

/* Opens the database in `path`, or creates it if `create`. Exits with one line on failure. */
std::unique_ptr<rocksdb::DB> open_store(const std::string &path, bool create);

/* Exits with one line if `status` is an error. */
void check(const rocksdb::Status &status, const char *what);

} // namespace ycsb
