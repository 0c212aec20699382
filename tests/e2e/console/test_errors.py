"""Errors in the form of the console, with its headers; parameters that no page knows."""

import http.client
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect


@pytest.mark.parametrize(
    ("address", "status", "title"),
    [
        pytest.param("/no-such-page", 404, "Not found", id="an unknown page"),
        pytest.param("/fleet/no-such-cluster", 404, "Not found", id="an unknown cluster"),
        pytest.param("/workloads?only=nothing", 400, "The address or the form has an error", id="a wrong parameter"),
        pytest.param(f"/workloads?q={'x' * 4096}", 414, "The address is too long", id="a long address"),
    ],
)
def test_an_error_is_a_page_of_the_console(visit, address, status, title):
    page = visit(address, status=status)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    visit.accessible(page)
    page.get_by_role("link", name="first page").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/no-such-page", 404), ("GET", f"/fleet?q={'x' * 4096}", 414), ("POST", "/sign-out", 403)],
)
def test_an_error_has_the_headers_of_a_page(console, method, path, status):
    with closing(http.client.HTTPConnection(urlsplit(console.url).netloc, timeout=30)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        assert answer.status == status
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert (answer.headers["X-Frame-Options"], answer.headers["Cache-Control"]) == ("DENY", "no-store")
        assert b"<h1>" in answer.read()


def test_an_unknown_parameter_has_no_effect(visit):
    page = visit("/workloads?utm_source=news&q=gateway-12")
    expect(page.get_by_role("link", name="gateway-12", exact=True)).to_be_visible()
