"""Sign-in with OpenID Connect: tokens that prove nothing, claims that name no user, and options that cannot work."""

from urllib.parse import parse_qs, urlsplit

import pytest
from console_source import GivenSource, console_app
from openid_provider import SECRET, UNPROVEN, OpenIdProvider
from tables import cases, data

from berthmaster.model.errors import InputError
from console.authentication import SignInOptions
from console.oidc_options import OidcOptions, SignInFailedError, user_of
from console.visitor import Visitor

HTML = {"Accept": "text/html"}


@pytest.fixture
def provider(httpserver, tmp_path):
    return OpenIdProvider(httpserver, tmp_path)


@pytest.fixture
def client(provider):
    return console_app(GivenSource(), sign_in=SignInOptions(oidc=provider.options())).test_client()


def come_back(client, provider, **changes):
    """Begin a sign-in, and come back as the provider sends a visitor."""
    led = client.get("/sign-in/provider?next=/help")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(led.headers["Location"]).query).items()}
    provider.nonce = asked["nonce"]
    return asked, client.get("/sign-in/callback", query_string={"code": "c", "state": asked["state"], **changes})


def test_a_visitor_is_led_to_the_provider_and_back_with_code_verifier_and_secret(client, provider):
    asked, answer = come_back(client, provider)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/help")
    assert (asked["code_challenge_method"], asked["scope"], asked["response_type"]) == ("S256", "openid email", "code")
    [exchange] = provider.asked
    assert exchange.authorization.password == SECRET
    assert len(exchange.form["code_verifier"]) >= 43
    page = client.get("/help")
    assert "ada@example.org" in page.text
    assert "Sign out" in page.text


@cases("sends", UNPROVEN)
def test_a_token_that_does_not_prove_the_user_begins_no_session(client, provider, sends):
    provider.sends = sends
    answer = come_back(client, provider)[1]
    assert (answer.status_code, 'role="alert"' in answer.text) == (403, True)
    assert client.get("/help", headers=HTML).status_code == 302


def test_an_answer_with_another_state_or_a_second_time_is_not_asked_about(client, provider):
    answer = come_back(client, provider, state="of another sign-in")[1]
    assert (answer.status_code, provider.asked) == (403, [])
    asked, _ = come_back(client, provider)
    again = client.get("/sign-in/callback", query_string={"code": "c", "state": asked["state"]})
    assert (again.status_code, "out of date" in again.text, len(provider.asked)) == (403, True, 1)


def test_a_lost_provider_is_named():
    options = OidcOptions("http://127.0.0.1:1", "console", "http://localhost")
    answer = console_app(GivenSource(), sign_in=SignInOptions(oidc=options)).test_client().get("/sign-in/provider")
    assert (answer.status_code, "127.0.0.1:1 cannot be asked" in answer.text) == (503, True)


def test_who_began_no_sign_in_uses_up_the_attempts_of_nobody(client, provider):
    stranger = client.application.test_client()
    found = {stranger.get(f"/sign-in/callback?code={n}&state=s").status_code for n in range(30)}
    assert (found, provider.asked) == ({403}, [])
    assert come_back(client, provider)[1].status_code == 303


def test_the_answers_to_one_sign_in_are_limited(client, provider):
    led = client.get("/sign-in/provider")
    state = parse_qs(urlsplit(led.headers["Location"]).query)["state"][0]
    cookie = client.get_cookie("berthmaster").value
    found = []
    for _ in range(5):
        client.set_cookie("berthmaster", cookie)
        found.append(client.get(f"/sign-in/callback?code=c&state={state}").status_code)
    assert found == [403] * 3 + [429] * 2
    assert come_back(client, provider)[1].status_code == 303


@cases(
    ("given", "text"),
    {
        "a known error": ({"error": "access_denied"}, "The provider denied the sign-in."),
        "another text": ({"error": "call +1 555 0100", "error_description": "call +1 555 0100"}, "refused the sign-in"),
    },
)
def test_the_address_of_an_error_does_not_write_the_page(client, provider, given, text):
    answer = come_back(client, provider, **given)[1]
    assert answer.status_code == 403
    assert text in answer.text
    assert "555" not in answer.text
    assert provider.asked == []


@cases("metadata", {"another issuer": {"issuer": "https://other.example.org"}, "no issuer": {"issuer": None}})
def test_the_metadata_of_another_issuer_do_not_count(client, provider, httpserver, metadata):
    httpserver.clear()
    found = {"authorization_endpoint": f"{provider.url}/auth", "token_endpoint": f"{provider.url}/token", **metadata}
    httpserver.expect_request("/.well-known/openid-configuration").respond_with_json(found)
    answer = client.get("/sign-in/provider")
    assert answer.status_code == 403
    assert "another provider than the console expects" in answer.text


def test_a_session_of_another_provider_or_after_a_copy_is_of_no_use(client, provider, tmp_path):
    come_back(client, provider)
    cookie = client.get_cookie("berthmaster").value
    other = OidcOptions("https://other.example.org", "console", "http://localhost")
    for options, status in ((provider.options(), 200), (other, 302)):
        thief = console_app(GivenSource(), sign_in=SignInOptions(oidc=options), revoked=tmp_path).test_client()
        thief.set_cookie("berthmaster", cookie)
        assert thief.get("/help", headers=HTML).status_code == status


def test_begun_sign_ins_do_not_fill_the_cookie(client):
    for _ in range(20):
        assert client.get("/sign-in/provider").status_code == 302
    assert len(client.get_cookie("berthmaster").value) < 3800


@cases(("claims", "options", "name", "groups"), data("sign_ins")["claims"])
def test_claims_name_user_and_groups(claims, options, name, groups):
    given = OidcOptions("https://login.example.org", "console", "https://console.example.org", **options)
    assert user_of(claims, given) == Visitor(name, "OpenID Connect", tuple(groups))


@cases("claims", data("sign_ins")["claims without a user"])
def test_claims_that_name_no_user_are_refused(claims):
    with pytest.raises(SignInFailedError):
        user_of(claims, OidcOptions("https://login.example.org", "console", "https://console.example.org"))


@pytest.mark.parametrize(("changes", "named"), data("sign_ins")["invalid options"])
def test_options_that_cannot_work_are_refused(changes, named):
    good = {"issuer_url": "https://login.example.org", "client_id": "c", "public_url": "https://console.example.org"}
    with pytest.raises(InputError, match=named):
        OidcOptions(**{**good, **changes})
