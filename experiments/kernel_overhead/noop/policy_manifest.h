/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the header that the build generates from policy.toml for policies below bpf/. */
#pragma once
#define CACHE_EXT_POLICY noop
#define CACHE_EXT_POLICY_NAME "noop"
#define CACHE_EXT_FOLIO_STATE_BYTES 0
#define CACHE_EXT_GHOST_VALUE_BYTES 0
#define CACHE_EXT_TUNABLE_WORDS 0
#define CACHE_EXT_TUNABLE_DEFAULTS
struct policy_tunables {
	u32 none;
};
