"""Errors in the form of the console, with its headers; parameters that no page knows."""

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
