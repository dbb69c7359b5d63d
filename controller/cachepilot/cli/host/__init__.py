# SPDX-License-Identifier: Apache-2.0
"""Commands about this host: the agent, the controller, the virtual machine."""
