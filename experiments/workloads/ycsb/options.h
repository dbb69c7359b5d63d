/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#pragma once

#include <cstdint>
#include <string>

#include "keys.h"

namespace ycsb
{

inline constexpr unsigned MAX_THREADS = 64;

/* Shares of operations in percent; their sum is 100. */
struct Mix {
	const char *name;
	Distribution distribution;
	unsigned read, update, insert, scan, read_modify_write;
};

struct Options {
	std::string command; /* load, run or keys */
	std::string database;
	const Mix *mix;
	uint64_t records = 100000;
	uint64_t value_bytes = 1000;
	double zipf = 0.99;
	uint64_t seed = 1;
	uint64_t seconds = 10;
	uint64_t operations = 0; /* the most operations of a run, 0: no limit; draws of `keys` */
	uint64_t threads = 1;
	uint64_t scan_threads = 0; /* further threads, which make only SCANs */
	uint64_t scan_length = 100;
	int64_t metrics_port = -1; /* on 127.0.0.1; 0: a free port; -1: no metrics */
	std::string cgroup;
};

/* Parses the command line. Exits with one line and status 2 if it is wrong. */
Options parse(int argc, char **argv);

} // namespace ycsb
