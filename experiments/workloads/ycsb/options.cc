/* SPDX-License-Identifier: Apache-2.0 */
/* See options.h. */
#include "options.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>

namespace ycsb
{

namespace
{

using enum Distribution;

/* YCSB's core workloads, and two of this project. `getscan` is for use with --scan-threads. */
constexpr Mix MIXES[] = {
	{"a", zipfian, 50, 50, 0, 0, 0},       {"b", zipfian, 95, 5, 0, 0, 0},
	{"c", zipfian, 100, 0, 0, 0, 0},       {"d", latest, 95, 0, 5, 0, 0},
	{"e", zipfian, 0, 0, 5, 95, 0},	       {"f", zipfian, 50, 0, 0, 0, 50},
	{"uniform", uniform, 100, 0, 0, 0, 0}, {"getscan", zipfian, 100, 0, 0, 0, 0},
};

constexpr char USAGE[] =
	"usage: ycsb load DATABASE [--records N] [--value-bytes N] [--seed N]\n"
	"       ycsb run DATABASE [--workload a|b|c|d|e|f|uniform|getscan] [--records N]\n"
	"                [--value-bytes N] [--zipf EXPONENT] [--seed N] [--seconds N]\n"
	"                [--operations N] [--threads N] [--scan-threads N] [--scan-length N]\n"
	"                [--metrics-port N] [--cgroup FOLDER]\n"
	"       ycsb keys [--workload NAME] [--records N] [--zipf EXPONENT] [--seed N]\n"
	"                 [--operations N]\n";

[[noreturn]] void refuse(const std::string &message)
{
	fprintf(stderr, "ycsb: %s\n", message.c_str());
	exit(2);
}

uint64_t whole(const char *name, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || strspn(text, "0123456789") == 0 || value < least || value > most)
		refuse("--" + std::string(name) + " " + text + ": must be " +
		       std::to_string(least) + " to " + std::to_string(most));
	return value;
}

double exponent(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (*end || end == text || !(value >= 0 && value <= 10))
		refuse("--zipf " + std::string(text) + ": must be 0 to 10");
	return value;
}

const Mix *mix(const std::string &name)
{
	for (const Mix &known : MIXES)
		if (name == known.name)
			return &known;
	refuse("--workload " + name + ": must be one of a, b, c, d, e, f, uniform, getscan");
}

struct Number {
	const char *name;
	uint64_t Options::*field;
	uint64_t least, most;
};

constexpr Number NUMBERS[] = {
	{"records", &Options::records, 1, 1ull << 40},
	{"value-bytes", &Options::value_bytes, 1, 1 << 20},
	{"seed", &Options::seed, 0, UINT64_MAX},
	{"seconds", &Options::seconds, 1, 1 << 30},
	{"operations", &Options::operations, 1, UINT64_MAX},
	{"threads", &Options::threads, 0, MAX_THREADS},
	{"scan-threads", &Options::scan_threads, 0, MAX_THREADS},
	{"scan-length", &Options::scan_length, 1, 1 << 30},
};

void take(Options &options, const std::string &name, const char *text)
{
	for (const Number &number : NUMBERS)
		if (name == number.name)
			options.*number.field = whole(number.name, text, number.least, number.most);
	if (name == "zipf")
		options.zipf = exponent(text);
	else if (name == "workload")
		options.mix = mix(text);
	else if (name == "metrics-port")
		options.metrics_port = static_cast<int64_t>(whole("metrics-port", text, 0, 65535));
	else if (name == "cgroup")
		options.cgroup = text;
}

void check(const Options &options, int words)
{
	bool keys = options.command == "keys";

	if (!keys && options.command != "load" && options.command != "run")
		refuse("the first argument must be load, run or keys\n" + std::string(USAGE));
	if (words != (keys ? 1 : 2))
		refuse(keys ? "keys takes no database" : "one database folder must be named");
	if (!options.threads && !options.scan_threads)
		refuse("--threads 0: must be at least 1 without --scan-threads");
}

} // namespace

Options parse(int argc, char **argv)
{
	const char *names[] = {"records",    "value-bytes", "seed",	    "seconds",
			       "operations", "threads",	    "scan-threads", "scan-length",
			       "zipf",	     "workload",    "metrics-port", "cgroup",
			       "help"};
	constexpr size_t count = sizeof(names) / sizeof(*names);
	option known[count + 1] = {};
	Options options;

	for (size_t i = 0; i < count; i++)
		known[i] = {names[i], strcmp(names[i], "help") ? required_argument : no_argument,
			    nullptr, static_cast<int>(i)};
	options.mix = mix("c");
	for (int key; (key = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
		if (key == '?')
			exit(2);
		if (!strcmp(names[key], "help")) {
			fputs(USAGE, stdout);
			exit(0);
		}
		take(options, names[key], optarg);
	}
	if (optind < argc)
		options.command = argv[optind];
	if (optind + 1 < argc)
		options.database = argv[optind + 1];
	check(options, argc - optind);
	return options;
}

} // namespace ycsb
