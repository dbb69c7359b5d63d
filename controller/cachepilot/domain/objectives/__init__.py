# SPDX-License-Identifier: Apache-2.0
"""What operators request for tenants: objectives, their file, and pins."""
