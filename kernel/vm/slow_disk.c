// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk with latency. It serves one image to one client of the NBD protocol over a UNIX socket,
 * and answers each request a fixed time after its arrival. Requests overlap like those of a real
 * device, so the latency does not bound the throughput. Because all requests wait equally long,
 * they are answered in their order, and one queue suffices.
 *
 * usage: slow_disk SOCKET IMAGE LATENCY_US
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define QUEUE_REQUESTS 1024
#define MAX_REQUEST_BYTES (32u << 20)
#define MAX_OPTION_BYTES 4096u

/* Constants of the NBD protocol. */
#define MAGIC_SERVER 0x4e42444d41474943ULL
#define MAGIC_OPTION 0x49484156454f5054ULL
#define MAGIC_OPTION_REPLY 0x3e889045565a9ULL
#define MAGIC_REQUEST 0x25609513u
#define MAGIC_REPLY 0x67446698u
#define HANDSHAKE_FLAGS 3 /* fixed newstyle, no zeroes */
#define EXPORT_FLAGS 0x25 /* has flags, sends flush, sends trim */
#define OPTION_EXPORT_NAME 1u
#define OPTION_ABORT 2u
#define OPTION_GO 7u
#define REPLY_ACK 1u
#define REPLY_INFO 3u
#define REPLY_UNSUPPORTED 0x80000001u

enum command {
	READ,
	WRITE,
	DISCONNECT,
	FLUSH,
	TRIM
};

struct request {
	uint64_t handle, offset, due_ns;
	uint32_t length, error;
	uint16_t command;
};

static struct request queue[QUEUE_REQUESTS];
static unsigned int head, tail; /* numbers of requests answered and received so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int client, image;
static uint64_t image_bytes, latency_ns;

static void die(const char *what)
{
	fprintf(stderr, "slow_disk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void receive(void *data, size_t size)
{
	while (size > 0) {
		ssize_t count = read(client, data, size);

		if (count == 0)
			exit(0); /* the virtual machine ended */
		if (count < 0 && errno != EINTR)
			die("reading a request");
		if (count > 0) {
			data = (char *)data + count;
			size -= count;
		}
	}
}

static void transmit(const void *data, size_t size)
{
	while (size > 0) {
		ssize_t count = send(client, data, size, MSG_NOSIGNAL);

		if (count < 0 && errno == EPIPE)
			exit(0);
		if (count < 0 && errno != EINTR)
			die("sending an answer");
		if (count > 0) {
			data = (const char *)data + count;
			size -= count;
		}
	}
}

static void answer_option(uint32_t option, uint32_t reply, const void *data, uint32_t length)
{
	struct __attribute__((packed)) {
		uint64_t magic;
		uint32_t option, reply, length;
	} header = {htobe64(MAGIC_OPTION_REPLY), htobe32(option), htobe32(reply), htobe32(length)};

	transmit(&header, sizeof(header));
	transmit(data, length);
}

static void send_export(bool as_info)
{
	struct __attribute__((packed)) {
		uint16_t type;
		uint64_t size;
		uint16_t flags;
	} info = {0, htobe64(image_bytes), htobe16(EXPORT_FLAGS)};

	if (as_info)
		answer_option(OPTION_GO, REPLY_INFO, &info, sizeof(info));
	else
		transmit(&info.size, sizeof(info) - sizeof(info.type));
}

static void shake_hands(void)
{
	struct __attribute__((packed)) {
		uint64_t server, option;
		uint16_t flags;
	} greeting = {htobe64(MAGIC_SERVER), htobe64(MAGIC_OPTION), htobe16(HANDSHAKE_FLAGS)};
	struct __attribute__((packed)) {
		uint64_t magic;
		uint32_t option, length;
	} asked;
	char ignored[MAX_OPTION_BYTES];
	uint32_t client_flags;

	transmit(&greeting, sizeof(greeting));
	receive(&client_flags, sizeof(client_flags));
	for (;;) {
		receive(&asked, sizeof(asked));
		uint32_t option = be32toh(asked.option), length = be32toh(asked.length);

		if (be64toh(asked.magic) != MAGIC_OPTION || length > sizeof(ignored))
			exit(1);
		receive(ignored, length);
		if (option == OPTION_ABORT)
			exit(0);
		if (option == OPTION_EXPORT_NAME || option == OPTION_GO)
			send_export(option == OPTION_GO);
		if (option == OPTION_GO)
			answer_option(option, REPLY_ACK, NULL, 0);
		if (option == OPTION_EXPORT_NAME || option == OPTION_GO)
			return;
		answer_option(option, REPLY_UNSUPPORTED, NULL, 0);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void wait_until(uint64_t due_ns)
{
	struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
		;
}

static void answer(const struct request *request)
{
	static char data[MAX_REQUEST_BYTES];
	struct __attribute__((packed)) {
		uint32_t magic, error;
		uint64_t handle;
	} header = {htobe32(MAGIC_REPLY), htobe32(request->error), request->handle};

	if (request->command == READ && !request->error &&
	    pread(image, data, request->length, request->offset) != (ssize_t)request->length)
		header.error = htobe32(EIO);
	transmit(&header, sizeof(header));
	if (request->command == READ && !header.error)
		transmit(data, request->length);
}

static void *__attribute__((noreturn)) answer_all(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (head == tail)
			pthread_cond_wait(&changed, &lock);
		struct request next = queue[head % QUEUE_REQUESTS];
		pthread_mutex_unlock(&lock);
		wait_until(next.due_ns);
		answer(&next);
		pthread_mutex_lock(&lock);
		head++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
}

static void enqueue(const struct request *request)
{
	pthread_mutex_lock(&lock);
	while (tail - head == QUEUE_REQUESTS)
		pthread_cond_wait(&changed, &lock);
	queue[tail++ % QUEUE_REQUESTS] = *request;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void take_request(void)
{
	static char data[MAX_REQUEST_BYTES];
	struct __attribute__((packed)) {
		uint32_t magic;
		uint16_t flags, command;
		uint64_t handle, offset;
		uint32_t length;
	} wire;

	receive(&wire, sizeof(wire));
	struct request request = {
		.handle = wire.handle,
		.offset = be64toh(wire.offset),
		.length = be32toh(wire.length),
		.command = be16toh(wire.command),
		.due_ns = now_ns() + latency_ns,
	};
	if (be32toh(wire.magic) != MAGIC_REQUEST || request.command == DISCONNECT)
		exit(0);
	bool moves_data = request.command == READ || request.command == WRITE;
	if (moves_data && request.length > MAX_REQUEST_BYTES)
		exit(1);
	if (request.offset > image_bytes || request.length > image_bytes - request.offset)
		request.error = EINVAL;
	if (request.command == WRITE) {
		receive(data, request.length);
		if (!request.error &&
		    pwrite(image, data, request.length, request.offset) != (ssize_t)request.length)
			request.error = EIO;
	}
	enqueue(&request);
}

static int accept_one(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		die(path);
	}
	strcpy(address.sun_path, path);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(listener, 1) != 0)
		die(path);
	int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (accepted < 0)
		die("accept");
	close(listener);
	return accepted;
}

int main(int count, char **arguments)
{
	struct stat status;
	pthread_t answerer;

	if (count != 4) {
		fprintf(stderr, "usage: slow_disk SOCKET IMAGE LATENCY_US\n");
		return 2;
	}
	image = open(arguments[2], O_RDWR | O_CLOEXEC);
	if (image < 0 || fstat(image, &status) != 0)
		die(arguments[2]);
	image_bytes = status.st_size;
	latency_ns = strtoull(arguments[3], NULL, 10) * 1000;
	prctl(PR_SET_TIMERSLACK, 1000UL);
	client = accept_one(arguments[1]);
	shake_hands();
	if (pthread_create(&answerer, NULL, answer_all, NULL) != 0)
		die("starting a thread");
	for (;;)
		take_request();
}
