"""The pages that begin and end a session, and forms that other sites cannot send."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from console_source import GivenSource, console_app
from prometheus_client import REGISTRY
from tables import cases, data

from console.authentication import SignInOptions
from console.revoked_sessions import RevokedSessions
from console.sign_in import local_address

TOKEN = "token-of-ada-0123456789"  # noqa: S105 - for these tests only
PROOF = "proof-of-the-proxy-0123"
HTML = {"Accept": "text/html"}


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN},ada\n")
    return path


@pytest.fixture
def client(tokens):
    return console_app(GivenSource(), sign_in=SignInOptions(tokens)).test_client()


def form_token(page):
    return re.search(r'name="form_token" value="([^"]+)"', page.text)[1]


def sign_in(client, given=TOKEN, **fields):
    form = {"form_token": form_token(client.get("/sign-in")), "token": given, **fields}
    return client.post("/sign-in", data=form)


def test_a_person_is_led_to_the_form_and_back_to_the_page(client):
    led = client.get("/help?a=1", headers=HTML)
    assert (led.status_code, led.headers["Location"]) == (302, "/sign-in?next=/help?a%3D1")
    page = client.get(led.headers["Location"])
    assert 'value="/help?a=1"' in page.text
    answer = sign_in(client, next="/help")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/help")
    assert "ada" in client.get("/help").text


def test_the_cookie_is_for_this_site_and_not_for_scripts(client):
    cookie = sign_in(client).headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie


def test_with_tls_the_cookie_is_sent_with_tls_only(tokens):
    client = console_app(GivenSource(), sign_in=SignInOptions(tokens), tls=True).test_client()
    answer = client.get("/sign-in")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-berthmaster=")
    assert "; Secure;" in cookie
    assert "; Path=/;" in f"{cookie};"
    assert "Domain" not in cookie
    assert answer.headers["Strict-Transport-Security"]


def test_a_program_gets_401_and_may_send_its_token(client):
    refused = client.get("/help", headers={"Accept": "application/json"})
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="berthmaster"')
    assert client.get("/help", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_wrong_token_is_refused_with_a_reason(client):
    answer = sign_in(client, "wrong")
    assert answer.status_code == 403
    assert "This token is not valid." in answer.text


@pytest.mark.parametrize("given", [{}, {"form_token": ""}, {"form_token": "of another visitor"}])
def test_a_form_without_the_token_of_the_session_is_refused(client, given):
    client.get("/sign-in")
    assert client.post("/sign-in", data={"token": TOKEN, **given}).status_code == 403
    assert client.get("/help", headers=HTML).status_code == 302


def test_signing_out_ends_the_session_and_needs_the_form(client):
    sign_in(client)
    assert client.post("/sign-out").status_code == 403
    page = client.get("/help")
    assert client.post("/sign-out", data={"form_token": form_token(page)}).status_code == 303
    assert client.get("/help", headers=HTML).status_code == 302


def test_who_has_signed_in_is_led_on(client):
    sign_in(client)
    assert client.get("/sign-in?next=/help").headers["Location"] == "/help"


def test_without_a_sign_in_the_navigation_shows_nothing(client):
    assert '<nav aria-label="Pages">\n  </nav>' in client.get("/sign-in").text


@pytest.mark.parametrize(("text", "address"), data("sign_ins")["led to"])
def test_a_sign_in_leads_to_pages_of_the_console_only(text, address):
    assert local_address(text) == address


def test_a_copied_cookie_is_of_no_use_after_the_sign_out(tokens, tmp_path):
    apps = [console_app(GivenSource(), sign_in=SignInOptions(tokens), revoked=tmp_path) for _ in range(2)]
    client, other_process = (each.test_client() for each in apps)
    sign_in(client)
    copied = client.get_cookie("berthmaster").value
    thieves = [app.test_client() for app in apps]
    for thief in (*thieves, other_process):
        thief.set_cookie("berthmaster", copied)
        assert thief.get("/help").status_code == 200
    client.post("/sign-out", data={"form_token": form_token(client.get("/help"))})
    for thief in (*thieves, other_process):
        thief.set_cookie("berthmaster", copied)
        assert thief.get("/help").status_code == 401
    sign_in(client)
    assert client.get("/help").status_code == 200


def sign_ins():
    name, results = "berthmaster_console_sign_ins_total", ("accepted", "refused", "limited")
    return Counter({each: REGISTRY.get_sample_value(name, {"result": each}) or 0 for each in results})


def test_guesses_by_header_and_by_form_have_one_limit_a_metric_and_a_warning(tokens, caplog):
    app = console_app(GivenSource(), sign_in=SignInOptions(tokens))
    known, guesser = app.test_client(), app.test_client()
    good, before = {"Authorization": f"Bearer {TOKEN}"}, sign_ins()
    assert known.get("/help", headers=good).status_code == 200
    found = [
        guesser.get("/help", headers={"Authorization": f"Bearer guess-{each}-0123456789abcdef"}).status_code
        for each in range(12)
    ]
    assert found == [401] * 9 + [429] * 3
    limited = sign_in(guesser, "another guess")
    assert (limited.status_code, limited.headers["Retry-After"]) == (429, "60")
    assert known.get("/help", headers=good).status_code == 200, "a credential that was accepted is no attempt"
    assert sign_ins() - before == Counter(accepted=1, refused=9, limited=4)
    assert caplog.text.count("a sign-in was refused") == 9


@cases(
    "signed_in_by",
    {
        "the secret of a proxy": {"X-Berthmaster-Proxy-Secret": PROOF, "X-Forwarded-User": "ada"},
        "a cookie": {},
    },
)
def test_guesses_beside_a_valid_sign_in_are_judged_by_themselves(tokens, tmp_path, signed_in_by):
    (tmp_path / "proofs").write_text(f"{PROOF}\n")
    options = SignInOptions(tokens, user_header="X-Forwarded-User", proxy_secret_file=tmp_path / "proofs")
    client = console_app(GivenSource(), sign_in=options).test_client()
    if not signed_in_by:
        sign_in(client)
    found = [
        client.get("/help", headers={**signed_in_by, "Authorization": f"Bearer guess-{each}-0123456789"}).status_code
        for each in range(12)
    ]
    assert 429 in found
    guess = {"Authorization": "Bearer guess-0-0123456789"}
    assert client.get("/help", headers=guess).status_code == 429, "a guess did not become a known credential"


def test_visitors_behind_a_proxy_have_limits_of_their_own(tokens, tmp_path):
    (tmp_path / "proofs").write_text(f"{PROOF}\n")
    options = SignInOptions(tokens, address_header="X-Forwarded-For", proxy_secret_file=tmp_path / "proofs")
    client = console_app(GivenSource(), sign_in=options).test_client()

    def guess(address, number, **headers):
        sent = {"Authorization": f"Bearer guess-{number}-0123456789", "X-Forwarded-For": address, **headers}
        return client.get("/help", headers=sent).status_code

    proven = {"X-Berthmaster-Proxy-Secret": PROOF}
    assert [guess("203.0.113.7", number, **proven) for number in range(12)][-1] == 429
    assert guess("203.0.113.7, 198.51.100.4", 20, **proven) == 401, "the last address is the one that the proxy saw"
    assert [guess(f"203.0.113.{number}", number) for number in range(12)][-1] == 429, "without a proof it is no address"


def test_a_sign_out_does_not_look_at_the_sign_outs_of_others(tmp_path, monkeypatch):
    revoked, scans = RevokedSessions(tmp_path, 3600), []
    monkeypatch.setattr(Path, "glob", lambda *_: scans.append(1) or iter(()))
    for number in range(50):
        revoked.add(str(number))
    assert len(scans) == 1
    assert "49" in revoked


def test_old_sign_outs_are_forgotten(tmp_path):
    RevokedSessions(tmp_path, 3600).add("old")
    for each in tmp_path.iterdir():
        os.utime(each, (1, 1))
    revoked = RevokedSessions(tmp_path, 3600)
    revoked.add("new")
    assert ("old" in revoked, "new" in revoked) == (False, True)
