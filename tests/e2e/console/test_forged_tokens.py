"""Tokens and metadata that prove no visitor, sent to a console by a provider on loopback: real processes."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from e2e.console.services import Console
from e2e.console.test_hostile_visitors import ask
from e2e.control_plane import HOST
from e2e.processes import Processes
from openid_provider import UNPROVEN, OpenIdProvider, signed
from pytest_httpserver import HTTPServer

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def console(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    made = Console(processes, tmp_path_factory.mktemp("forged"))
    yield made
    made.close()


def signed_in(url: str, provider: OpenIdProvider) -> int:
    """Begin a sign-in and come back from the provider. Return the status of the answer."""
    led = ask(url, "/sign-in/provider?next=/help")
    asked = parse_qs(urlsplit(led.headers["location"]).query)
    provider.nonce = asked["nonce"][0]
    cookie = led.headers["set-cookie"].partition(";")[0]
    return ask(url, f"/sign-in/callback?code=c&state={asked['state'][0]}", Cookie=cookie).status


def test_only_a_token_of_the_issuer_for_this_client_begins_a_session(
    console: Console, httpserver: HTTPServer, tmp_path: Path
) -> None:
    provider, port = OpenIdProvider(httpserver, tmp_path), console.free_port()
    url = console.start_console(
        f"--oidc-issuer-url={provider.url}", "--oidc-client-id=console", f"--public-url=http://{HOST}:{port}",
        f"--oidc-client-secret-file={provider.secret_file}", port=port,
    )  # fmt: skip
    for what, sends in UNPROVEN.items():
        provider.sends = sends
        assert signed_in(url, provider) == 403, what
    for proven in ({}, {"aud": ["console"]}, {"aud": ["console", "another"], "azp": "console"}):
        provider.sends = lambda claims, proven=proven: signed({**claims, **proven})
        assert signed_in(url, provider) == 303, proven


@pytest.mark.parametrize("metadata", [{"issuer": "https://other.example.org"}, {}], ids=["another issuer", "none"])
def test_a_provider_that_names_another_issuer_is_not_asked(
    console: Console, httpserver: HTTPServer, tmp_path: Path, metadata: dict[str, str]
) -> None:
    secret, port = tmp_path / "secret", console.free_port()
    secret.write_text("secret-of-the-console")
    issuer = httpserver.url_for("").rstrip("/")
    found = {"authorization_endpoint": f"{issuer}/auth", "token_endpoint": f"{issuer}/token", **metadata}
    httpserver.expect_request("/.well-known/openid-configuration").respond_with_json(found)
    url = console.start_console(
        f"--oidc-issuer-url={issuer}", "--oidc-client-id=console", f"--public-url=http://{HOST}:{port}",
        f"--oidc-client-secret-file={secret}", port=port,
    )  # fmt: skip
    answer = ask(url, "/sign-in/provider")
    assert answer.status == 403
    assert "another provider than the console expects" in answer.text
    assert {request.path for request, _ in httpserver.log} == {"/.well-known/openid-configuration"}
