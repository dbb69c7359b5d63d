/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of JSON on stdout: the operations of each second, and at the end all operations. */
#pragma once

#include <array>
#include <chrono>

#include "client.h"

namespace ycsb
{

/* Returns the number of operations of each kind that have ended. */
std::array<uint64_t, KINDS> operations_of(const Client &client);

class Report
{
      public:
	explicit Report(Client &client) : client_(client), begun_(Clock::now()), last_(begun_)
	{
	}

	/* Prints a line for the operations since the last line. */
	void print_second();

	/* Prints a line for all operations. */
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
