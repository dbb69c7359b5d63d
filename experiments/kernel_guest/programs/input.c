/* SPDX-License-Identifier: Apache-2.0 */
/* See input.h. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"

uint64_t option_number(const char *text, const char *option, uint64_t most)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || value > most)
		fail("--%s: not a number up to %llu: %s", option, (unsigned long long)most, text);
	return value;
}

const uint64_t *read_stream(const char *path, uint64_t *count)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat about;
	size_t size, done = 0;
	char *memory;

	if (fd < 0 || fstat(fd, &about))
		fail("%s", path);
	*count = (uint64_t)about.st_size / sizeof(uint64_t);
	size = *count * sizeof(uint64_t);
	memory = malloc(size + 1);
	if (!memory)
		fail("%s", path);
	while (done < size) {
		ssize_t got = read(fd, memory + done, size - done);

		if (got <= 0)
			fail("%s: cannot be read whole", path);
		done += (size_t)got;
	}
	close(fd);
	return (const uint64_t *)(void *)memory;
}
