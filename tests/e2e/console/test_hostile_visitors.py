"""Visitors that want to stop the console, or to see or say what they must not: real processes, without a browser."""

import csv
import http.client
import io
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import console_fleet
import pytest
from e2e.console.services import Console
from e2e.control_plane import HOST
from e2e.processes import Processes, wait_for
from karmada_plane import policy, selector

from console.question import WhatIfQuestion, encoded

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 30
TOKEN: Final = "a-token-of-ada-0123456789abcdef"  # noqa: S105 - of this test only
SIGNED_IN: Final = {"Authorization": f"Bearer {TOKEN}"}
SHOWN: Final = console_fleet.TEAMS[0]
ELSEWHERE: Final = "vault-of-others"
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Seen(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(url: str, path: str, *, method: str = "GET", body: bytes = b"", **headers: str) -> Seen:
    with closing(http.client.HTTPConnection(HOST, urlsplit(url).port or 0, timeout=LIMIT_S)) as connection:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return Seen(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


@pytest.fixture(scope="module")
def others(processes: Processes) -> set[Path]:
    """The logs of consoles that other modules started before."""
    return {*processes.folder.glob("*console*")}


@pytest.fixture(scope="module")
def console(
    processes: Processes,
    others: set[Path],  # noqa: ARG001 - found before it starts
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Console]:
    made = Console(processes, tmp_path_factory.mktemp("hostile"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def protected(console: Console, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a console that requires a sign-in. Ada may see one namespace."""
    folder = tmp_path_factory.mktemp("protected")
    (folder / "tokens").write_text(f"{TOKEN},ada\n")
    (folder / "secret").write_text("secret-of-the-console")
    console.api.may_list["ada"] = {SHOWN, "-"}
    return console.start_console(
        f"--token-file={folder / 'tokens'}", "--authorize=subject-access-review", f"--kubeconfig={console.kubeconfig}",
        f"--oidc-issuer-url=http://{HOST}:9", "--oidc-client-id=console", f"--public-url=http://{HOST}",
        f"--oidc-client-secret-file={folder / 'secret'}",
    )  # fmt: skip


def processor_s() -> float:
    """Return the processor time of all children of this process and of theirs, so far."""
    used = 0.0
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
            command = (each.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if b"berthmaster" in command and b"console" in command:
            used += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return used


def test_a_short_address_with_a_large_question_is_refused_before_any_work(console: Console) -> None:
    question = encoded(WhatIfQuestion(lose=tuple("x" * (number % 7 + 1) for number in range(30_000))))
    assert len(question) < 2_000, "it is compressed"
    used_s, begun_s, asked = processor_s(), time.monotonic(), console.asked()
    answers = [ask(console.url, f"/what-if?question={question}") for _ in range(30)]
    assert {each.status for each in answers} == {400}
    assert all("at most 100" in each.text or "too large" in each.text for each in answers)
    assert processor_s() - used_s < 15, "30 addresses took 126 s each"
    assert time.monotonic() - begun_s < 60
    assert console.asked() - asked == {}, "the extender was not asked"
    assert ask(console.url, "/fleet").status == 200


def test_a_form_of_another_site_asks_the_extender_nothing(console: Console) -> None:
    asked = console.asked()
    for body in (b"lose=member1", b"policies=" + b"x" * 200_000, b"a=b&" * 20_000):
        form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": "https://evil.example"}
        assert ask(console.url, "/what-if", method="POST", body=body, **form).status in {400, 403, 413}
    assert console.asked() - asked == {}


def test_answers_of_a_provider_that_nobody_waits_for_lock_out_no_visitor(protected: str) -> None:
    text = "call +1 555 0100"
    for number in range(60):
        path = f"/sign-in/callback?code={number}&state=s&error={text.replace(' ', '%20')}&error_description={text}"
        found = ask(protected, path.replace(" ", "%20"))
        assert found.status == 403
        assert "555" not in found.text
    assert ask(protected, "/help", **SIGNED_IN).status == 200


@pytest.mark.parametrize(
    "address",
    [
        "/fleet/%ff%fe",
        "/workloads?q=%ff",
        "/workloads/%c0%af/x",
        "/what-if?question=%ff",
        "/%ed%a0%80",
        "/fleet?sort=%00",
    ],
)
def test_bytes_that_are_no_text_are_answered(console: Console, address: str) -> None:
    assert ask(console.url, address).status in {200, 400, 404}


@pytest.mark.parametrize("path", ["/v1/plan", "/v1/review", "/v1/schedule", "/kube-scheduler/filter"])
def test_bodies_that_are_no_text_are_invalid_requests(console: Console, path: str) -> None:
    for body in (b"\xff", b'{"a": "\xff"}', b'{"update": [{"kind": "\xed\xa0\x80"}]}', b'{"\xc0\xaf": 1}'):
        form = {"Content_Type": "application/json"}
        assert ask(console.extender_url, path, method="POST", body=body, **form).status == 400


def test_a_visitor_of_one_namespace_sees_no_other_name_in_selectors(console: Console, protected: str) -> None:
    selectors = [
        selector("Deployment", namespace=ELSEWHERE, name="of-others"),
        selector("Deployment", namespace=SHOWN, name="own"),
    ]
    console.put(policy("wide", *selectors, namespace=""))
    wait_for("the policy", lambda: '"wide"' in ask(protected, "/policies?as=json", **SIGNED_IN).text, LIMIT_S)
    for path in ("/policies", "/policies?as=csv", "/policies?as=json", "/clusterpolicies/wide", "/policies/-/wide"):
        found = ask(protected, path, **SIGNED_IN)
        assert ELSEWHERE not in found.text, path
        assert "of-others" not in found.text, path


def test_no_cell_of_a_file_is_a_formula(console: Console) -> None:
    signs = set("=+-@\t\r\n") | {chr(ord(each) + 0xFEE0) for each in "=+-@"}
    tables = {"/workloads?as=csv": 0, "/fleet?as=csv": 0, "/policies?as=csv": 0, "/history?as=csv": 0}
    for path in tables:
        found = ask(console.url, path)
        assert found.status == 200, path
        for row in csv.reader(io.StringIO(found.text, newline="")):
            for each in row:
                assert not each or each[0] not in signs or _is_number(each), (path, each)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_nothing_of_this_crashed(processes: Processes, others: set[Path]) -> None:
    for log in {*processes.folder.glob("*console*")} - others:
        if log.is_file():
            assert "Traceback" not in log.read_text(errors="replace"), log
            for line in log.read_text(errors="replace").splitlines():
                record: Any = json.loads(line) if line.startswith("{") else {}
                assert record.get("level") not in {"error", "critical"}, line
