# SPDX-License-Identifier: Apache-2.0
"""What a rollout is shown of nodes and of who is on them, and for how long it waits for that."""
