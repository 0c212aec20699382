"""Links to other sites: logs, dashboards and Git for what a page is about, and the consoles of other control planes.

The configuration has them as templates. Each value that fills a place is escaped for an address.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from berthmaster.model.errors import InputError, name_list, shown

_PLACE: Final = re.compile(r"{(\w*)}")
_SCHEMES: Final = frozenset({"http", "https"})


class LinkSubject(Enum):
    """What a link is about."""

    CLUSTER = "cluster"
    WORKLOAD = "workload"
    POLICY = "policy"


_PLACES: Final[Mapping[LinkSubject, tuple[str, ...]]] = {
    LinkSubject.CLUSTER: ("cluster",),
    LinkSubject.WORKLOAD: ("namespace", "kind", "name", "cluster"),
    LinkSubject.POLICY: ("namespace", "kind", "name"),
}


class OutsideLink(NamedTuple):
    """A link to another site. ``subject`` is None for the console of another control plane."""

    subject: LinkSubject | None
    title: str
    template: str

    def filled(self, **values: str) -> str:
        """Return the address with values in its places."""
        return _PLACE.sub(lambda place: quote(values[place[1]], safe=""), self.template)


class FilledLink(NamedTuple):
    """A link as a page shows it."""

    title: str
    address: str


def outside_link(text: str) -> OutsideLink:
    """Read ``SUBJECT:TITLE=URL``, for example ``workload:Logs=https://logs/{namespace}/{name}``.

    Raises ``InputError`` if the subject, the address or a place in it is not accepted.
    """
    word, colon, rest = text.partition(":")
    subject = next((each for each in LinkSubject if each.value == word), None)
    if subject is None or not colon:
        known = name_list([each.value for each in LinkSubject])
        raise InputError(f"{shown(text)} is no link; accepted is SUBJECT:TITLE=URL, where SUBJECT is one of {known}")
    title, url = _titled(rest, text)
    unknown = [each for each in _PLACE.findall(url) if each not in _PLACES[subject]]
    if unknown:
        places = name_list([f"{{{each}}}" for each in _PLACES[subject]])
        raise InputError(f"{shown(text)}: a link about a {word} has no place {{{unknown[0]}}}; accepted: {places}")
    return OutsideLink(subject, title, url)


def other_console(text: str) -> OutsideLink:
    """Read ``TITLE=URL``: the console of another control plane. Raises ``InputError`` as ``outside_link``."""
    title, url = _titled(text, text)
    return OutsideLink(None, title, url)


def _titled(text: str, whole: str) -> tuple[str, str]:
    title, equals, url = text.partition("=")
    parts = urlsplit(url)
    if not title.strip() or not equals or parts.scheme not in _SCHEMES or not parts.netloc:
        raise InputError(f"{shown(whole)}: a title, an equals sign and an address with http or https are expected")
    return title.strip(), url


class LinkWriter:
    """Fills the links of one installation."""

    def __init__(self, links: tuple[OutsideLink, ...] = ()) -> None:
        self._links = links

    def of_cluster(self, name: str) -> list[FilledLink]:
        return [FilledLink(each.title, each.filled(cluster=name)) for each in self._about(LinkSubject.CLUSTER)]

    def of_policy(self, kind: str, namespace: str, name: str) -> list[FilledLink]:
        values = {"namespace": namespace, "kind": kind, "name": name}
        return [FilledLink(each.title, each.filled(**values)) for each in self._about(LinkSubject.POLICY)]

    def of_workload(self, namespace: str, kind: str, name: str, clusters: Mapping[str, int]) -> list[FilledLink]:
        """Return the links about a workload; one for each of its clusters if the address names a cluster."""
        values = {"namespace": namespace, "kind": kind, "name": name}
        found = []
        for each in self._about(LinkSubject.WORKLOAD):
            if "cluster" in _PLACE.findall(each.template):
                found += [
                    FilledLink(f"{each.title} on {cluster}", each.filled(**values, cluster=cluster))
                    for cluster in sorted(clusters)
                ]
            else:
                found.append(FilledLink(each.title, each.filled(**values)))
        return found

    def _about(self, subject: LinkSubject) -> list[OutsideLink]:
        return [each for each in self._links if each.subject is subject]
