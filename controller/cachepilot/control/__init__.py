# SPDX-License-Identifier: Apache-2.0
"""The control loop: sessions with agents, collect -> plan -> guard -> apply, and what is kept."""
