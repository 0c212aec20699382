"""Reads what an API server is: its version, its clock, and the kinds that it serves."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import ask_if_found, read_body
from berthmaster.kube.openapi import openapi_request, schemas_of
from berthmaster.kube.served_types import APIResourceList
from berthmaster_cli.doctor.facts import ServedKinds, ServerFacts
from berthmaster_cli.doctor.gather.client import DoctorClient, decode

_NUMBER: Final = re.compile(r"\d+")


class _ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""
    major: str = "0"
    minor: str = "0"


def read_server(client: DoctorClient, now: Callable[[], datetime]) -> ServerFacts:
    """Read version and clock.

    The clock is read from the ``Date`` header, which cuts off fractions of a second. So the true time is half a second
    later on average. The server is assumed to have read its clock in the middle between request and response.
    """
    started = now()
    with client.send(requests.APIRequest("/version")) as response:
        dates = response.header("Date")
        version = decode(_ServerVersion, read_body(response))
    took = now() - started
    return ServerFacts(
        version=version.git_version,
        number=(_number(version.major), _number(version.minor)),
        ahead=_ahead(dates, started + took / 2),
        slack=took / 2 + timedelta(seconds=0.5),
    )


def read_kinds(client: DoctorClient, api_version: str) -> ServedKinds:
    """Read what the API server serves of an API version, with schemas if it publishes them."""
    listed = client.read_as(APIResourceList, requests.APIRequest(f"/apis/{api_version}"))
    body = ask_if_found(client, openapi_request(api_version))
    document = decode(dict[str, Any], body) if body is not None else {}
    plurals = frozenset(each.name for each in listed.resources if "/" not in each.name)
    return ServedKinds(plurals, dict(schemas_of(document, api_version)))


def _number(text: str) -> int:
    """Read 31 from ``31+``, as some clouds write it."""
    found = _NUMBER.match(text)
    return int(found[0]) if found else 0


def _ahead(dates: list[str], here: datetime) -> timedelta | None:
    try:
        there = parsedate_to_datetime(dates[0]) if dates else None
    except ValueError:
        return None
    return there.astimezone(UTC) + timedelta(seconds=0.5) - here if there is not None else None
