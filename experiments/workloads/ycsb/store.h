/* SPDX-License-Identifier: Apache-2.0 */
/* A RocksDB whose reads all reach the page cache. */
#pragma once

#include <memory>
#include <rocksdb/db.h>
#include <string>

namespace ycsb
{

/* Opens the database in `path`, made now if `create`; fails with one line. */
std::unique_ptr<rocksdb::DB> open_store(const std::string &path, bool create);

/* Ends the program with one line unless it went well. */
void check(const rocksdb::Status &status, const char *what);

} // namespace ycsb
