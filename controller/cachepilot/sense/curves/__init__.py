# SPDX-License-Identifier: Apache-2.0
"""Miss ratio curves as an agent reports them, and as the planner gets them."""
