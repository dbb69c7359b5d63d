/* SPDX-License-Identifier: Apache-2.0 */
/* See client.h. */
#include "client.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "store.h"

namespace ycsb
{

/* The state of one thread: its random numbers, its keys, and a buffer for values. */
struct Client::Draws {
	Draws(const Options &options, unsigned thread)
	    : keys(options.mix->distribution, options.records, options.zipf)
	{
		std::seed_seq seeds = {static_cast<uint32_t>(options.seed),
				       static_cast<uint32_t>(options.seed >> 32), thread};

		random.seed(seeds);
	}

	Random random;
	KeyChooser keys;
	std::string value;
};

std::string value_of(uint64_t number, uint64_t value_bytes, uint64_t seed)
{
	Random random(fnv_hash(number) ^ seed);
	std::string value(value_bytes, '\0');

	for (size_t at = 0; at < value.size(); at += sizeof(uint64_t)) {
		uint64_t bytes = random();

		value.replace(at, sizeof(bytes), reinterpret_cast<const char *>(&bytes),
			      std::min(sizeof(bytes), value.size() - at));
	}
	return value;
}

static Kind draw_kind(const Mix &mix, Random &random)
{
	unsigned at = static_cast<unsigned>(unit(random) * 100);

	if (at < mix.read)
		return READ;
	if ((at -= mix.read) < mix.update)
		return UPDATE;
	if ((at -= mix.update) < mix.insert)
		return INSERT;
	return at - mix.insert < mix.scan ? SCAN : READ_MODIFY_WRITE;
}

void Client::work(unsigned thread, bool scans)
{
	Draws draws(options, thread);

	while (!stopped.load(std::memory_order_relaxed)) {
		Kind kind = scans ? SCAN : draw_kind(*options.mix, draws.random);

		if (options.operations && started.fetch_add(1) >= options.operations)
			break;
		auto begun = std::chrono::steady_clock::now();
		operate(kind, draws);
		auto took = std::chrono::steady_clock::now() - begun;
		latency_add(&latencies[kind], static_cast<uint64_t>(took.count()));
	}
	working--;
}

void Client::operate(Kind kind, Draws &draws)
{
	uint64_t number;

	if (kind == INSERT)
		return insert(draws);
	if (kind == SCAN)
		return scan(draws);
	number = draws.keys.next(draws.random, records.load());
	if (kind == READ || kind == READ_MODIFY_WRITE)
		check(db.Get(rocksdb::ReadOptions(), key_of(number), &draws.value), "get");
	if (kind == UPDATE || kind == READ_MODIFY_WRITE)
		check(db.Put(rocksdb::WriteOptions(), key_of(number),
			     value_of(number, options.value_bytes, draws.random())),
		      "put");
}

void Client::insert(Draws &draws)
{
	std::lock_guard guard(inserting_);
	uint64_t number = records.load();

	check(db.Put(rocksdb::WriteOptions(), key_of(number),
		     value_of(number, options.value_bytes, draws.random())),
	      "put");
	records.store(number + 1);
}

/* Reads 1 to --scan-length records from a chosen key on. The length is uniform, as in YCSB. */
void Client::scan(Draws &draws)
{
	uint64_t number = draws.keys.next(draws.random, records.load());
	uint64_t length = 1 + static_cast<uint64_t>(unit(draws.random) *
						    static_cast<double>(options.scan_length));
	std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(rocksdb::ReadOptions()));

	for (at->Seek(key_of(number)); length && at->Valid(); at->Next(), length--)
		draws.value.assign(at->value().data(), at->value().size());
	check(at->status(), "scan");
}

} // namespace ycsb
