/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YCSB's core workloads on RocksDB, in one process.
 *
 * `load` writes the records. `run` operates on them and prints a line of JSON per second. `keys`
 * prints the records that a thread would choose, one number per line.
 */
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "client.h"
#include "metrics.h"
#include "options.h"
#include "report.h"
#include "store.h"

extern "C" {
#include "../../kernel_guest/programs/counters.h"
}

namespace ycsb
{

static constexpr uint64_t DRAWS = 100000;
static volatile std::sig_atomic_t interrupted;

static int load(const Options &options)
{
	auto db = open_store(options.database, true);
	rocksdb::WriteOptions write;

	write.disableWAL = true;
	for (uint64_t number = 0; number < options.records; number++)
		check(db->Put(write, key_of(number),
			      value_of(number, options.value_bytes, options.seed)),
		      "put");
	check(db->Flush(rocksdb::FlushOptions()), "flush");
	/* Compacts the database to one sorted run, the state that it would reach after a while. */
	check(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr), "compact");
	check(db->Close(), "close");
	return 0;
}

static int keys(const Options &options)
{
	KeyChooser chooser(options.mix->distribution, options.records, options.zipf);
	Random random(options.seed);

	for (uint64_t i = 0; i < (options.operations ? options.operations : DRAWS); i++)
		printf("%llu\n",
		       static_cast<unsigned long long>(chooser.next(random, options.records)));
	return 0;
}

/* Prints a line per second until the time is over, all threads have ended or a signal came. */
static void watch(Client &client, Report &report)
{
	using namespace std::chrono;
	auto begun = steady_clock::now();
	auto next = begun + seconds(1);
	auto end = begun + seconds(client.options.seconds);

	while (client.working && !interrupted && steady_clock::now() < end) {
		std::this_thread::sleep_for(milliseconds(10));
		if (steady_clock::now() < next)
			continue;
		report.print_second();
		next += seconds(1);
	}
	client.stopped = true;
}

static int run(const Options &options)
{
	auto db = open_store(options.database, false);
	auto client = std::make_unique<Client>(options, *db);
	std::unique_ptr<MetricsServer> metrics;
	std::vector<std::thread> threads;

	if (!options.cgroup.empty())
		join_cgroup(options.cgroup.c_str());
	if (options.metrics_port >= 0) {
		metrics = std::make_unique<MetricsServer>(
			*client, static_cast<uint16_t>(options.metrics_port));
		printf("{\"at\":\"start\",\"metrics_port\":%u}\n", metrics->port());
		fflush(stdout);
	}
	auto report = std::make_unique<Report>(*client);
	client->working = static_cast<unsigned>(options.threads + options.scan_threads);
	for (unsigned i = 0; i < options.threads + options.scan_threads; i++)
		threads.emplace_back(&Client::work, client.get(), i, i >= options.threads);
	watch(*client, *report);
	for (std::thread &thread : threads)
		thread.join();
	report->print_end();
	return 0;
}

} // namespace ycsb

int main(int argc, char **argv)
{
	ycsb::Options options = ycsb::parse(argc, argv);
	auto interrupt = [](int) { ycsb::interrupted = 1; };

	std::signal(SIGINT, interrupt);
	std::signal(SIGTERM, interrupt);
	if (options.command == "load")
		return ycsb::load(options);
	return options.command == "keys" ? ycsb::keys(options) : ycsb::run(options);
}
