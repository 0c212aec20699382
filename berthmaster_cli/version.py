"""``berthmaster version``: the versions of the command, the services and the control plane, and whether they fit."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from berthmaster.model.errors import ApiError, InputError, ServiceError
from berthmaster.model.releases import OLDEST, TRIED, text_of
from berthmaster.version import __version__
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import option, options
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.options import AccessFlags, LeaseFlags, ServerFlags
from berthmaster_cli.output import OutputFlags, complain, print_answer, print_line, print_table, styled
from berthmaster_cli.watching import WatchFlags, watched

if TYPE_CHECKING:
    from berthmaster.deciding.lease_record import LeaseRecord
    from berthmaster.kube.client import APIClient

_TIMEOUT_S: Final = 5.0
_NOT_RECORDED: Final = "not recorded"


class Versions(msgspec.Struct, frozen=True, rename="camel"):
    """What is known about versions. A part that was not asked, or did not answer, is null.

    Attributes:
        controllers: the version of the controllers that hold the Lease, or held it last.
        controllers_run: whether they renew the Lease.
        karmada: the releases of Karmada that have the definitions of this control plane.
        unknown_fields: the fields of placements that these definitions have and this version does not know.
        tried: the releases of Karmada that this version was tried with.
        problems: what does not fit, and the remedy.
        gaps: what could not be read.
    """

    client: str
    controllers: str | None = None
    controllers_run: bool | None = None
    extender: str | None = None
    karmada: str | None = None
    kubernetes: str | None = None
    unknown_fields: tuple[str, ...] = ()
    tried: tuple[str, ...] = TRIED
    problems: list[str] = []
    gaps: list[str] = []


_ANSWER: Final = AnswerKind("Versions", Versions)


class _VersionFlags(AccessFlags, LeaseFlags, ServerFlags, OutputFlags, WatchFlags):
    client: bool = option("Print the version of this command only, without any request.")
    check: bool = option("Exit with 1 if versions do not fit, or if one could not be read.")


@click.command(
    epilog="Exit codes: 0 success; 1 with --check, versions do not fit or one could not be read; 2 bad usage or input."
)
@options(_VersionFlags, server="the control plane to ask")
@watched("client")
def command(flags: _VersionFlags) -> None:
    """Show the versions of the command, the services and the control plane, and whether they fit.

    The controllers record their version on their Lease. Karmada does not name its release: its definitions show which
    releases it can be. With --server an extender is asked, too.
    """
    found = Versions(__version__)
    if not flags.client:
        found = _asked(flags)
    if flags.output != "table":
        print_answer(_ANSWER, found, flags.output)
    elif flags.client:
        print_line(__version__)
    else:
        _print(found)
    if flags.check and (found.problems or found.gaps):
        raise SystemExit(EXIT_CHECK_FAILED)


def _asked(flags: _VersionFlags) -> Versions:
    """Return what the control plane and the extender say. What does not answer becomes a gap."""
    gaps: list[str] = []
    known: dict[str, Any] = {}
    remote = flags.remote()
    try:
        access = flags.access()
    except InputError as error:
        gaps.append(f"the control plane is not asked: {error}")
    else:
        from berthmaster.kube.http_client import connect  # noqa: PLC0415 - only a control plane needs the client

        known |= _of_plane(connect(access), flags.lease, gaps)
    if remote is not None:
        with remote.within(flags.request_timeout_s or _TIMEOUT_S) as client:
            try:
                known["extender"] = client.version().release or _NOT_RECORDED
            except ServiceError as error:
                gaps.append(f"the extender does not answer: {error}")
    found = Versions(__version__, gaps=gaps, **known)
    return msgspec.structs.replace(found, problems=skew(found))


def _of_plane(client: "APIClient", lease: tuple[str, str], gaps: list[str]) -> dict[str, Any]:
    from berthmaster.controllers.target import UNKNOWN, read_target  # noqa: PLC0415 - files need no schemas

    try:
        target = read_target(client)
        record = _lease_record(client, lease, gaps)
    except ApiError as error:
        gaps.append(f"the control plane does not answer: {error}")
        return {}
    found: dict[str, Any] = {"kubernetes": target.kubernetes, "unknown_fields": target.unknown_fields}
    if target.karmada == UNKNOWN:
        gaps.append("this API server has no definitions of Karmada; name the context of Karmada's with --context")
    else:
        found["karmada"] = target.karmada
    if record is not None:
        switches = record.controllers
        found["controllers"] = (switches.version if switches is not None else "") or _NOT_RECORDED
        found["controllers_run"] = record.running(datetime.now(UTC)) is not None
    return found


def _lease_record(client: "APIClient", key: tuple[str, str], gaps: list[str]) -> "LeaseRecord | None":
    from berthmaster.deciding.lease_record import lease_record  # noqa: PLC0415 - as above
    from berthmaster.kube.client import ask_if_found  # noqa: PLC0415
    from berthmaster.kube.lease import LEASES  # noqa: PLC0415
    from berthmaster.kube.requests import get  # noqa: PLC0415
    from berthmaster.kube.responses import decode_response  # noqa: PLC0415

    name = "/".join(key)
    try:
        body = ask_if_found(client, get(LEASES, key)._replace(read_timeout_s=_TIMEOUT_S))
    except ApiError as error:
        if not error.forbidden:
            raise
        gaps.append(f"no right to get the Lease {name}: the version of the controllers is not known")
        return None
    if body is None:
        gaps.append(
            f"there is no Lease {name}: the version of the controllers is not known; name it with --lease-namespace "
            "and --lease-name"
        )
        return None
    return lease_record(decode_response(dict[str, Any], body, "the lease"))


def skew(found: Versions) -> list[str]:
    """Return what does not fit: parts of another minor version, and a Karmada that this version does not know."""
    problems = []
    for name, version in (("controllers have", found.controllers), ("extender has", found.extender)):
        if version == _NOT_RECORDED:
            problems.append(f"the {name} no version on record, so that it is older than 0.2; upgrade the release")
        elif version is not None and _minor(version) != _minor(found.client):
            problems.append(
                f"the {name} version {version}, and this command {found.client}; use the same minor version everywhere"
            )
    if found.karmada is not None and found.karmada.startswith("older"):
        problems.append(f"Karmada is {found.karmada}; the oldest supported release is {text_of(OLDEST)}")
    if found.unknown_fields:
        fields = ", ".join(found.unknown_fields)
        problems.append(f"Karmada has placement fields that this version does not know ({fields}); upgrade Berthmaster")
    return problems


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _print(found: Versions) -> None:
    tried = f"tried with {', '.join(found.tried)}"
    runs = "" if found.controllers_run is None or found.controllers_run else "no controller renews the Lease now"
    rows = [
        ("command", found.client, ""),
        ("controllers", found.controllers, runs),
        ("extender", found.extender, ""),
        ("Karmada", found.karmada, f"by its definitions; {tried}"),
        ("API server", found.kubernetes, ""),
    ]
    print_table(("PART", "VERSION", "NOTE"), [(part, version, note) for part, version, note in rows if version])
    for problem in found.problems:
        print_line(styled(problem, "yellow"))
    for gap in found.gaps:
        complain(gap)
