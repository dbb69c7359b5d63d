/* SPDX-License-Identifier: Apache-2.0 */
/* See keys.h. */
#include "keys.h"

#include <cstdio>

namespace ycsb
{

uint64_t fnv_hash(uint64_t value)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (int octet = 0; octet < 8; octet++, value >>= 8)
		hash = (hash ^ (value & 0xff)) * 1099511628211;
	return hash >> 63 ? -hash : hash;
}

std::string key_of(uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "user%019llu",
		 static_cast<unsigned long long>(fnv_hash(number)));
	return text;
}

KeyChooser::KeyChooser(Distribution distribution, uint64_t records, double exponent)
    : distribution_(distribution), exponent_(exponent), records_(records),
      zipfian_(records, exponent)
{
}

uint64_t KeyChooser::next(Random &random, uint64_t records)
{
	if (distribution_ == Distribution::uniform)
		return static_cast<uint64_t>(unit(random) * static_cast<double>(records));
	if (distribution_ == Distribution::zipfian)
		return fnv_hash(zipfian_(random)) % records_;
	if (records != records_) {
		records_ = records;
		zipfian_ = Zipfian(records, exponent_);
	}
	return records - 1 - zipfian_(random);
}

} // namespace ycsb
