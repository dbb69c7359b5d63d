# SPDX-License-Identifier: Apache-2.0
"""Which host names and addresses mean this machine."""

from ipaddress import ip_address


def is_this_host(host: str) -> bool:
    """Whether a host name or address, without a port, can only be reached from this machine.

    Names other than `localhost` are not resolved, because their meaning can change.
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
