"""Addresses of pages in the console."""

import pytest

from berthmaster.model.errors import InputError
from berthmaster.runtime.console_link import ConsoleLink


@pytest.mark.parametrize(
    ("url", "namespace", "binding", "address"),
    [
        ("https://console.example/", "shop", "web-deployment", "https://console.example/workloads/shop/web-deployment"),
        ("http://h:1/base", "", "admin-clusterrole", "http://h:1/base/workloads/-/admin-clusterrole"),
        ("https://h", "a/b", "c?d#e\n", "https://h/workloads/a%2Fb/c%3Fd%23e%0A"),
    ],
)
def test_the_page_of_a_workload(url, namespace, binding, address):
    assert ConsoleLink(url).workload(namespace, binding) == address


@pytest.mark.parametrize(
    "url",
    [
        "console.example",
        "ftp://h",
        "https://",
        "https://h?a=b",
        "https://u:p@h",
        "https://h/ x",
        f"https://{'h' * 300}",
    ],
)
def test_anything_else_is_no_address_of_a_console(url):
    with pytest.raises(InputError, match="is not the address of a console"):
        ConsoleLink(url)
