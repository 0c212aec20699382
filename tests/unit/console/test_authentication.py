"""Who a visitor is, and what does not make a visitor."""

from datetime import timedelta

import pytest
from fake_clock import START
from tables import cases, data

from berthmaster.model.errors import InputError
from console import authentication
from console.authentication import Authentication, SignInOptions

TOKEN = "token-of-ada-0123456789"  # noqa: S105 - for these tests only
PROOF = "proof-of-the-proxy-0123"
SECRET = b"a secret for tests"


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f'{TOKEN},ada,1,"team-shop,team-pay"\nanother-token-0123456789,bob,2,team-pay\n')
    return path


@pytest.fixture
def proofs(tmp_path):
    path = tmp_path / "proofs"
    path.write_text(f"{PROOF}\n")
    return path


def visitor(options, session=None, now=START, **environ):
    return Authentication(options, SECRET).visitor(environ, session or {}, now)


def test_without_a_way_to_sign_in_each_visitor_is_anonymous():
    found = visitor(SignInOptions())
    assert (found.name, found.signed_in_by, found.namespaces) == ("", "loopback", None)


@cases(
    ("authorization", "name", "groups"),
    {
        "a token with several groups": (f"Bearer {TOKEN}", "ada", ("team-shop", "team-pay")),
        "a token with one group": ("bearer another-token-0123456789", "bob", ("team-pay",)),
    },
)
def test_a_token_names_user_and_groups(tokens, authorization, name, groups):
    found = visitor(SignInOptions(tokens), HTTP_AUTHORIZATION=authorization)
    assert (found.name, found.groups, found.signed_in_by) == (name, groups, "token")


@pytest.mark.parametrize(
    "authorization", ["", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer #"]
)
def test_anything_else_is_no_token(tokens, authorization):
    assert visitor(SignInOptions(tokens), HTTP_AUTHORIZATION=authorization) is None


def begun(sign_in, token=TOKEN):
    session = {"form_token": "of the time before"}
    assert sign_in.begin_session(token, session, START)
    return session


def test_a_session_lasts_eight_hours(tokens):
    sign_in = Authentication(SignInOptions(tokens), SECRET)
    session = begun(sign_in)
    assert sign_in.visitor({}, session, START + timedelta(hours=7, minutes=59)).name == "ada"
    assert sign_in.visitor({}, session, START + timedelta(hours=8)) is None


def test_a_session_starts_empty_and_does_not_contain_the_token(tokens):
    session = begun(Authentication(SignInOptions(tokens), SECRET))
    assert "form_token" not in session
    assert TOKEN not in str(session)


def test_a_session_ends_when_its_token_leaves_the_file(tokens):
    session = begun(Authentication(SignInOptions(tokens), SECRET))
    tokens.write_text("another-token-0123456789,bob\n")
    assert visitor(SignInOptions(tokens), session) is None


def test_a_session_of_another_secret_does_not_count(tokens):
    session = begun(Authentication(SignInOptions(tokens), b"another secret"))
    assert visitor(SignInOptions(tokens), session) is None


@pytest.mark.parametrize("session", [{"token": 1, "until": 9e12}, {"token": "x", "until": "never"}, {"token": "x"}])
def test_a_session_with_other_values_does_not_count(tokens, session):
    assert visitor(SignInOptions(tokens), session) is None


def by_header(proofs, **fields):
    return SignInOptions(user_header="X-Forwarded-User", groups_header="X-Groups", proxy_secret_file=proofs, **fields)


def test_a_proxy_with_the_secret_names_the_user(proofs):
    found = visitor(
        by_header(proofs),
        HTTP_X_BERTHMASTER_PROXY_SECRET=PROOF,
        HTTP_X_FORWARDED_USER="ada@example.com",
        HTTP_X_GROUPS="team-shop, team-pay,",
    )
    assert (found.name, found.groups, found.signed_in_by) == ("ada@example.com", ("team-shop", "team-pay"), "proxy")


@cases("fields", data("sign_ins")["no user of a proxy"])
def test_a_header_without_proof_or_without_one_user_does_not_count(proofs, fields):
    assert visitor(by_header(proofs), **{f"HTTP_X_{name}": text for name, text in fields.items()}) is None


@pytest.mark.parametrize(("length", "named"), [(512, True), (513, False)])
def test_the_name_of_a_user_has_a_bound(proofs, length, named):
    fields = {"HTTP_X_BERTHMASTER_PROXY_SECRET": PROOF, "HTTP_X_FORWARDED_USER": "a" * length}
    assert (visitor(by_header(proofs), **fields) is not None) is named


def certified(monkeypatch, name, *groups):
    monkeypatch.setattr(authentication, "_subject", lambda _environ: (name, groups))


def test_a_client_certificate_names_user_and_groups(monkeypatch):
    certified(monkeypatch, "ada", "team-shop")
    found = visitor(SignInOptions(client_certificates=True))
    assert (found.name, found.groups, found.signed_in_by) == ("ada", ("team-shop",), "certificate")


def test_a_proxy_with_a_named_certificate_names_the_user(monkeypatch):
    options = SignInOptions(None, True, "X-Forwarded-User", "", frozenset({"oauth2-proxy"}))  # noqa: FBT003
    certified(monkeypatch, "oauth2-proxy")
    assert visitor(options, HTTP_X_FORWARDED_USER="ada").name == "ada"
    assert visitor(options) is None, "the proxy is no user"
    certified(monkeypatch, "another-client")
    assert visitor(options, HTTP_X_FORWARDED_USER="ada") is None


def test_next_to_tokens_a_certificate_alone_does_not_sign_in(monkeypatch, tokens):
    certified(monkeypatch, "ingress")
    assert visitor(SignInOptions(tokens, client_certificates=True)) is None


@cases(
    ("options", "problem"),
    {
        "a header without proof": ({"user_header": "X-User"}, "needs --trusted-proxy-name or"),
        "a proof without header": ({"proxy_names": frozenset({"p"})}, "need --trusted-user-header"),
        "no certificates": ({"user_header": "X-User", "proxy_names": frozenset({"p"})}, "needs --client-ca-file"),
    },
)
def test_options_that_would_trust_each_client_are_refused(options, problem):
    with pytest.raises(InputError, match=problem):
        SignInOptions(**options)
