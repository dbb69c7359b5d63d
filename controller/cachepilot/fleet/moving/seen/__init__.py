# SPDX-License-Identifier: Apache-2.0
"""What a rollout observes of nodes and their tenants, and how long it waits for that."""
