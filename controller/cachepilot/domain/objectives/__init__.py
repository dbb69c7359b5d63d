# SPDX-License-Identifier: Apache-2.0
"""What operators ask of tenants: objectives, their file, and pins."""
