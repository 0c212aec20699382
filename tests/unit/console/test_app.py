"""What every page of the console passes: addresses, headers, errors."""

import pytest
from console_source import GivenSource, console_client


def test_the_first_page_is_a_redirect():
    answer = console_client(GivenSource()).get("/")
    assert answer.status_code == 302


@pytest.mark.parametrize("address", ["/help", "/nothing", "/help?view=x", "/static/console.css"])
def test_every_answer_has_the_headers_that_keep_other_sites_out(address):
    headers = console_client(GivenSource()).get(address).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_pages_are_not_stored_and_static_files_are():
    client = console_client(GivenSource())
    assert client.get("/help").headers["Cache-Control"] == "no-store"
    assert "immutable" in client.get("/static/console.css").headers["Cache-Control"]


def test_an_unknown_parameter_is_an_error_that_names_it_and_what_is_accepted():
    answer = console_client(GivenSource()).get("/help?colour=<script>")
    assert answer.status_code == 400
    assert "&#39;colour&#39; is not a parameter of this page; accepted: none" in answer.text


def test_an_unknown_address_has_an_error_page():
    answer = console_client(GivenSource()).get("/<script>alert(1)</script>")
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text
