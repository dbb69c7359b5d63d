/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header that the build generates from policy.toml for other policies. The policies of the
 * tests have no tunables.
 */
#pragma once
#define CACHE_EXT_FOLIO_STATE_BYTES 8
#define CACHE_EXT_TUNABLE_DEFAULTS .none = 0
struct policy_tunables {
	u32 none;
};
