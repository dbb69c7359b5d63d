/* SPDX-License-Identifier: Apache-2.0 */
/* See report.h. */
#include "report.h"

#include <cstdio>

namespace ycsb
{

static uint64_t operations(const latency &histogram)
{
	uint64_t total = 0;

	for (const auto &count : histogram.count)
		total += count;
	return total;
}

std::array<uint64_t, KINDS> operations_of(const Client &client)
{
	std::array<uint64_t, KINDS> result;

	for (int kind = 0; kind < KINDS; kind++)
		result[kind] = operations(client.latencies[kind]);
	return result;
}

void Report::print(const char *at, double since_begin, double lasted,
		   std::array<latency, KINDS> &done) const
{
	unsigned long long total = 0;

	for (const latency &histogram : done)
		total += operations(histogram);
	printf("{\"at\":\"%s\",\"seconds\":%.3f,\"operations\":%llu,"
	       "\"operations_per_second\":%.1f",
	       at, since_begin, total, static_cast<double>(total) / lasted);
	for (int kind = 0; kind < KINDS; kind++) {
		unsigned long long count = operations(done[kind]);

		if (!count)
			continue;
		printf(",\"%s\":{\"operations\":%llu,\"p50_us\":%.1f,\"p95_us\":%.1f,"
		       "\"p99_us\":%.1f,\"p999_us\":%.1f}",
		       KIND_NAMES[kind], count,
		       static_cast<double>(latency_percentile(&done[kind], 0.5)) / 1e3,
		       static_cast<double>(latency_percentile(&done[kind], 0.95)) / 1e3,
		       static_cast<double>(latency_percentile(&done[kind], 0.99)) / 1e3,
		       static_cast<double>(latency_percentile(&done[kind], 0.999)) / 1e3);
	}
	printf("}\n");
	fflush(stdout);
}

void Report::print_second()
{
	auto now = Clock::now();
	auto since = [&](auto then) { return std::chrono::duration<double>(now - then).count(); };
	/* Threads go on counting, so the next line must start from the counts read here. */
	static std::array<latency, KINDS> done;

	for (int kind = 0; kind < KINDS; kind++)
		for (int i = 0; i < LATENCY_BUCKETS; i++) {
			uint64_t count = client_.latencies[kind].count[i];

			done[kind].count[i] = count - before_[kind].count[i];
			before_[kind].count[i] = count;
		}
	print("second", since(begun_), since(last_), done);
	last_ = now;
}

void Report::print_end()
{
	double lasted = std::chrono::duration<double>(Clock::now() - begun_).count();

	print("end", lasted, lasted, client_.latencies);
}

} // namespace ycsb
