# SPDX-License-Identifier: Apache-2.0
"""The control loop of one node: measure, plan, decide, act, and what is stored and shown of it."""
