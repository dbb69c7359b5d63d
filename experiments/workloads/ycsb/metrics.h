/* SPDX-License-Identifier: Apache-2.0 */
/* The operation counters over HTTP, in Prometheus's text format. */
#pragma once

#include <cstdint>
#include <thread>

#include "client.h"

namespace ycsb
{

/* Answers every request on 127.0.0.1 with the counters, one at a time, until it is destroyed. */
class MetricsServer
{
      public:
	/* Port 0 takes a free one. */
	MetricsServer(const Client &client, uint16_t port);
	~MetricsServer();

	uint16_t port() const
	{
		return port_;
	}

      private:
	void serve();
	void answer(int connection) const;

	const Client &client_;
	int listening_;
	uint16_t port_;
	std::thread thread_;
};

} // namespace ycsb
