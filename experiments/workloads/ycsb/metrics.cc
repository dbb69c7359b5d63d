/* SPDX-License-Identifier: Apache-2.0 */
/* See metrics.h. */
#include "metrics.h"

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "report.h"

namespace ycsb
{

static constexpr timeval ANSWER_WITHIN = {.tv_sec = 2, .tv_usec = 0};

static std::string metrics_text(const Client &client)
{
	std::string text = "# HELP ycsb_operations_total Operations that ended.\n"
			   "# TYPE ycsb_operations_total counter\n";
	auto done = operations_of(client);

	for (int kind = 0; kind < KINDS; kind++)
		text += "ycsb_operations_total{kind=\"" + std::string(KIND_NAMES[kind]) + "\"} " +
			std::to_string(done[kind]) + "\n";
	return text;
}

MetricsServer::MetricsServer(const Client &client, uint16_t port)
    : client_(client), listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
{
	sockaddr_in address = {};
	socklen_t length = sizeof(address);
	int yes = 1;

	address.sin_family = AF_INET;
	address.sin_port = htons(port);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listening_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (listening_ < 0 || bind(listening_, reinterpret_cast<sockaddr *>(&address), length) ||
	    listen(listening_, 8) ||
	    getsockname(listening_, reinterpret_cast<sockaddr *>(&address), &length)) {
		perror("ycsb: --metrics-port");
		exit(1);
	}
	port_ = ntohs(address.sin_port);
	thread_ = std::thread(&MetricsServer::serve, this);
}

MetricsServer::~MetricsServer()
{
	/* Wake the thread: accept() fails from now on. */
	shutdown(listening_, SHUT_RDWR);
	thread_.join();
	close(listening_);
}

void MetricsServer::serve()
{
	for (int connection;
	     (connection = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
		answer(connection);
		close(connection);
	}
}

void MetricsServer::answer(int connection) const
{
	char request[4096];
	std::string body = metrics_text(client_);
	std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
			   "Connection: close\r\nContent-Length: " +
			   std::to_string(body.size()) + "\r\n\r\n";

	/* A client that neither sends nor receives must not block the next one. */
	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &ANSWER_WITHIN, sizeof(ANSWER_WITHIN));
	setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &ANSWER_WITHIN, sizeof(ANSWER_WITHIN));
	if (recv(connection, request, sizeof(request), 0) <= 0)
		return;
	head += body;
	send(connection, head.data(), head.size(), MSG_NOSIGNAL);
	shutdown(connection, SHUT_WR);
}

} // namespace ycsb
