/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of JSON on stdout: what was done in each second, and at the end in all. */
#pragma once

#include <array>
#include <chrono>

#include "client.h"

namespace ycsb
{

/* Operations of every kind that have ended. */
std::array<uint64_t, KINDS> operations_of(const Client &client);

class Report
{
      public:
	explicit Report(Client &client) : client_(client), begun_(Clock::now()), last_(begun_)
	{
	}

	/* The line of what was done since the last one. */
	void print_second();

	/* The line of everything. */
	void print_end();

      private:
	using Clock = std::chrono::steady_clock;

	void print(const char *at, double since_begin, double lasted,
		   std::array<latency, KINDS> &done) const;

	Client &client_;
	Clock::time_point begun_;
	Clock::time_point last_;
	std::array<latency, KINDS> before_ = {};
};

} // namespace ycsb
