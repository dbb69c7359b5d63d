/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which record an operation takes, and what its key is.
 *
 * As in YCSB (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC '10; its
 * CoreWorkload, ScrambledZipfianGenerator and SkewedLatestGenerator): ranks are scattered over the
 * records by a 64-bit FNV hash, and a key is "user" and the hash of the record's number. Two ranks
 * may hash to one record, as there. YCSB draws ranks from 10^10 items whatever the number of
 * records; here they are drawn from the records, so that the exponent is that of the keys.
 */
#pragma once

#include <cstdint>
#include <string>

#include "zipfian.h"

namespace ycsb
{

/* YCSB's Utils.fnvhash64: FNV-1a over eight octets, as a number that is not negative. */
uint64_t fnv_hash(uint64_t value);

/* The key of record `number`; keys are of one length. */
std::string key_of(uint64_t number);

enum class Distribution {
	zipfian,
	latest,
	uniform
};

/* Chooses records for one thread; each thread has its own. */
class KeyChooser
{
      public:
	KeyChooser(Distribution distribution, uint64_t records, double exponent);

	/* One of the first `records` records, which may have become more. */
	uint64_t next(Random &random, uint64_t records);

      private:
	Distribution distribution_;
	double exponent_;
	uint64_t records_;
	Zipfian zipfian_;
};

} // namespace ycsb
