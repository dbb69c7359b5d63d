# SPDX-License-Identifier: Apache-2.0
"""All nodes: sessions, certificates, scraping of applications, and the configuration."""
