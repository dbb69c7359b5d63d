/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the counts of operations over HTTP in the text format of Prometheus. */
#pragma once

#include <cstdint>
#include <thread>

#include "client.h"

namespace ycsb
{

/* Answers requests on 127.0.0.1 with the counts, one request at a time, until destroyed. */
class MetricsServer
{
      public:
	/* Port 0 takes a free port. */
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
