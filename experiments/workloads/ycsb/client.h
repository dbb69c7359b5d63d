/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that operate on a store, and their counts. */
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <rocksdb/db.h>

#include "../../kernel_guest/programs/latency.h"
#include "options.h"

namespace ycsb
{

enum Kind {
	READ,
	UPDATE,
	INSERT,
	SCAN,
	READ_MODIFY_WRITE,
	KINDS
};

inline constexpr std::array<const char *, KINDS> KIND_NAMES = {"read", "update", "insert", "scan",
							       "read_modify_write"};

/* The state that the threads of a run share. */
struct Client {
	Client(const Options &options, rocksdb::DB &db)
	    : options(options), db(db), records(options.records)
	{
	}

	/* Makes operations until `stopped`; with `scans` only SCANs. */
	void work(unsigned thread, bool scans);

	const Options &options;
	rocksdb::DB &db;
	std::atomic<uint64_t> records;
	std::array<latency, KINDS> latencies = {};
	std::atomic<uint64_t> started = 0; /* operations, for --operations */
	std::atomic<bool> stopped = false;
	std::atomic<unsigned> working = 0;

      private:
	struct Draws;

	void operate(Kind kind, Draws &draws);
	void insert(Draws &draws);
	void scan(Draws &draws);

	std::mutex inserting_; /* `records` grows only after the record was written */
};

/* Returns the value of record `number`, which consists of incompressible bytes. */
std::string value_of(uint64_t number, uint64_t value_bytes, uint64_t seed);

} // namespace ycsb
