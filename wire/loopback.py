"""Which hosts can only be this machine. Pure."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be this machine; no name is looked up."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_loopback_url(url: str) -> bool:
    """Whether a URL leads to this machine; one that cannot be read does not."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
