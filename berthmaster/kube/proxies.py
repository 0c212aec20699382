"""The proxy that the environment names for an API server, as kubectl reads it."""

import os
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from urllib3.util import Url, parse_url


def environment_proxy(server: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the URL of the proxy for a server, from ``HTTPS_PROXY`` and the like; None without one.

    A host on loopback has none, and neither has one that ``NO_PROXY`` names: as a host, a domain or a network.
    """
    url = parse_url(server)
    proxy = _value(environ, f"{url.scheme}_proxy") or _value(environ, "all_proxy")
    if not proxy or _is_direct(url, _value(environ, "no_proxy").lower().split(",")):
        return None
    return proxy


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_direct(url: Url, direct: list[str]) -> bool:
    host = (url.host or "").strip("[]").lower()
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for each in filter(None, map(str.strip, direct)):
        domain = each.lstrip(".")
        if each == "*" or domain in {host, f"{host}:{url.port}"} or host.endswith(f".{domain}"):
            return True
        if address is not None and _is_in(address, each):
            return True
    return False


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_in(address: IPv4Address | IPv6Address, network: str) -> bool:
    try:
        return address in ip_network(network, strict=False)
    except ValueError:
        return False
