"""What every page of the console passes: addresses, headers, errors."""

import re

import pytest
from console_source import GivenSource, console_app, console_client

from console.source import SourceError


def test_the_first_page_is_a_redirect():
    answer = console_client(GivenSource()).get("/")
    assert answer.status_code == 302


@pytest.mark.parametrize("address", ["/help", "/nothing", "/help?view=x", "/static/console.css"])
def test_every_answer_has_the_headers_that_keep_other_sites_out(address):
    headers = console_client(GivenSource()).get(address, buffered=True).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_pages_are_not_stored_and_static_files_are():
    client = console_client(GivenSource())
    assert client.get("/help").headers["Cache-Control"] == "no-store"
    assert "immutable" in client.get("/static/console.css", buffered=True).headers["Cache-Control"]


def test_a_parameter_that_no_page_knows_has_no_effect():
    answer = console_client(GivenSource()).get("/help?utm_source=<script>")
    assert answer.status_code == 200
    assert "utm_source=<script>" not in answer.text


def test_an_unknown_address_has_an_error_page():
    answer = console_client(GivenSource()).get("/<script>alert(1)</script>")
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text


def test_a_visitor_who_asks_too_often_waits():
    client = console_client(GivenSource(), requests_per_s=0.001, request_burst=2)
    answers = [client.get("/help") for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert answers[2].headers["Retry-After"] == "5"
    assert client.get("/static/console.css", buffered=True).status_code == 200


def test_a_page_of_another_site_cannot_reach_a_console_without_sign_in():
    client = console_client(GivenSource())
    assert client.get("/help", headers={"Host": "evil.example"}).status_code == 400
    for host in ("localhost:9444", "127.0.0.1:9444", "[::1]:9444", "console.localhost"):
        assert client.get("/help", headers={"Host": host}).status_code == 200


def test_an_answer_that_the_extender_does_not_give_is_an_error_page_with_the_reason():
    client = console_client(GivenSource(fleet=SourceError("the extender cannot be reached: <timeout>")))
    answer = client.get("/fleet")
    assert answer.status_code == 502
    assert "the extender cannot be reached: &lt;timeout&gt;" in answer.text


def test_an_unexpected_error_is_a_page_with_the_id_in_the_log(caplog):
    answer = console_client(GivenSource(fleet=ZeroDivisionError("secret"))).get("/fleet")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["X-Request-Id"] in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_if_too_many_streams_are_open_the_next_one_is_refused_for_a_while():
    client = console_client(GivenSource(), streams=1)
    first = client.get("/events", buffered=False)
    refused = client.get("/events")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "30")
    first.close()
    assert client.get("/events", buffered=False).status_code == 200


def test_a_visitor_of_few_namespaces_reads_that_rows_are_left_out():
    page = console_client(GivenSource(), namespaces=frozenset({"shop"})).get("/what-if").text
    assert "You may list the bindings of 1 namespace. Rows of other namespaces are left out." in page


@pytest.mark.parametrize(
    ("address", "namespace"),
    [("/workloads/shop/web-deployment", "shop"), ("/workloads/-/viewer-clusterrole", ""), ("/workloads", "")],
)
def test_the_rights_of_a_visitor_are_asked_about_the_namespace_of_the_page(address, namespace):
    app, asked = console_app(GivenSource()), []
    app.extensions["console"].namespaces_of = lambda _visitor, about: asked.append(about) or frozenset()
    app.test_client().get(address)
    assert asked == [namespace]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 429, 0, 503])
def test_the_title_of_an_error_is_in_plain_words(status):
    client = console_client(GivenSource(fleet=SourceError("the reason", status)))
    answer = client.get("/fleet")
    titles = re.findall(r"<h1>(.*?)</h1>", answer.text)
    assert titles[0] not in {"Conflict", "Bad Request", "Forbidden", "Bad Gateway", "Service Unavailable"}
    assert "the reason" in answer.text
