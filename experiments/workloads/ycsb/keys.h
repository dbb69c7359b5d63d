/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of an operation's record, and the keys of records.
 *
 * As in YCSB (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC '10; its
 * CoreWorkload, ScrambledZipfianGenerator and SkewedLatestGenerator), a 64-bit FNV hash scatters
 * the ranks over the records, and a key is "user" followed by the hash of the record's number. Two
 * ranks may hash to the same record, as in YCSB. The deviation: YCSB draws ranks from 10^10 items
 * whatever the number of records, while here they are drawn from the number of records, so that the
 * exponent applies to the keys.
 */
#pragma once

#include <cstdint>
#include <string>

#include "zipfian.h"

namespace ycsb
{

/* YCSB's Utils.fnvhash64: the absolute value of FNV-1a over eight octets. */
uint64_t fnv_hash(uint64_t value);

/* Returns the key of record `number`. All keys have the same length. */
std::string key_of(uint64_t number);

enum class Distribution {
	zipfian,
	latest,
	uniform
};

/* Chooses records for one thread. Each thread has its own chooser. */
class KeyChooser
{
      public:
	KeyChooser(Distribution distribution, uint64_t records, double exponent);

	/* Returns one of the first `records` records, whose number may have grown. */
	uint64_t next(Random &random, uint64_t records);

      private:
	Distribution distribution_;
	double exponent_;
	uint64_t records_;
	Zipfian zipfian_;
};

} // namespace ycsb
