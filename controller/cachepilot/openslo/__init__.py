# SPDX-License-Identifier: Apache-2.0
"""Objectives as OpenSLO v1 documents, and back: https://openslo.com."""
