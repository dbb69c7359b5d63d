// SPDX-License-Identifier: Apache-2.0
// What an operator must not overlook, by one rule for every page.

import type { Node, Tenant } from "../api/types";

/** Share of what the device can serve from which reads begin to queue. */
const SATURATED = 0.9;
/** Hit ratio below which the page cache is of no use to a tenant. */
const USELESS = 0.05;
/** Reads of the device per second below which a hit ratio says little. */
const IDLE_IOPS = 1;

export const deviceShare = (node: Node): number | null =>
  node.device_capacity_iops > 0 && node.device_iops !== null
    ? node.device_iops / node.device_capacity_iops
    : null;

export const isSaturated = (node: Node): boolean => (deviceShare(node) ?? 0) >= SATURATED;

export const isUseless = (tenant: Tenant): boolean =>
  tenant.hit_ratio !== null &&
  tenant.hit_ratio < USELESS &&
  (tenant.device_iops ?? Infinity) >= IDLE_IOPS;

export const isMissed = (tenant: Tenant): boolean => tenant.slos.some((one) => one.met === false);

/** Nothing that is known of the node is of now. */
export const isStale = (node: Node): boolean => node.stale || !node.connected;

/** Why a node is stale, without the word that is beside it. */
export const staleness = (node: Node): string => node.problem.replace(/^stale: /, "");
