// SPDX-License-Identifier: Apache-2.0
/*
 * A plugin of QEMU (TCG plugin interface, version 1) that counts the guest's instructions per
 * address of the translated block that contains them. All instructions of user space are counted at
 * address 0.
 *
 *	-plugin count_blocks.so,mark=ADDRESS,out=PREFIX
 *
 * Each time the guest executes the block at ADDRESS, the plugin writes the counts so far to the
 * next of the files PREFIX.0, PREFIX.1 and so on, with a line "address instructions" per block. A
 * block that an exception interrupts is counted in full.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of qemu-plugin.h that is used here. Debian has no package with this header. */
typedef uint64_t qemu_plugin_id_t;
struct qemu_info;
struct qemu_plugin_tb;
enum qemu_plugin_cb_flags {
	QEMU_PLUGIN_CB_NO_REGS
};
enum qemu_plugin_op {
	QEMU_PLUGIN_INLINE_ADD_U64
};
typedef void (*translated_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*executed_cb)(unsigned int cpu, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated_cb callback);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, executed_cb callback,
					  enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, enum qemu_plugin_op op,
					      void *counter, uint64_t amount);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

#define SLOTS (1u << 20)
#define KERNEL_START 0xffffffff80000000u

struct block {
	uint64_t address;
	uint64_t instructions;
	bool taken;
};

static struct block blocks[SLOTS];
static unsigned int used;
static uint64_t mark;
static const char *out;
static unsigned int marks;

static struct block *find(uint64_t address)
{
	uint64_t slot = (address * 0x9e3779b97f4a7c15u) >> 44;

	while (blocks[slot].taken) {
		if (blocks[slot].address == address)
			return &blocks[slot];
		slot = (slot + 1) % SLOTS;
	}
	if (++used == SLOTS) {
		fprintf(stderr, "count_blocks: more than %u blocks\n", SLOTS);
		exit(1);
	}
	blocks[slot] = (struct block){.address = address, .taken = true};
	return &blocks[slot];
}

static void write_counts(unsigned int cpu, void *data)
{
	char path[4096];
	FILE *file;

	(void)cpu;
	(void)data;
	snprintf(path, sizeof(path), "%s.%u", out, marks++);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		exit(1);
	}
	for (unsigned int i = 0; i < SLOTS; i++)
		if (blocks[i].instructions)
			fprintf(file, "%" PRIx64 " %" PRIu64 "\n", blocks[i].address,
				blocks[i].instructions);
	if (fclose(file)) {
		perror(path);
		exit(1);
	}
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	struct block *block = find(address < KERNEL_START ? 0 : address);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64,
						 &block->instructions, qemu_plugin_tb_n_insns(tb));
	if (address == mark)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, write_counts, QEMU_PLUGIN_CB_NO_REGS,
						     NULL);
}

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "mark=", 5))
			mark = strtoull(argv[i] + 5, NULL, 0);
		else if (!strncmp(argv[i], "out=", 4))
			out = argv[i] + 4;
	}
	if (!mark || !out) {
		fprintf(stderr, "count_blocks: needs mark=ADDRESS and out=PREFIX\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
