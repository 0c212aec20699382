"""What the paths of an API server name."""

import re
from typing import NamedTuple, Self

_PATH = re.compile(
    r"(?P<root>/api/[^/]+|/apis/[^/]+/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"(?:/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?)?"
)


class Place(NamedTuple):
    """What a path names: a group and version, objects of a kind, one of them, or a part of it.

    Attributes:
        root: of the group and version.
        namespace: empty for none, or for all.
        plural: the kind; empty for the group and version itself.
        name: of one object; empty for all of them.
        subresource: of that object.
    """

    root: str
    namespace: str
    plural: str
    name: str
    subresource: str

    @classmethod
    def of(cls, path: str) -> Self:
        """What a path names."""
        match = _PATH.fullmatch(path)
        assert match, f"an API server serves no {path}"
        return cls(**match.groupdict(""))

    def holds(self, path: str) -> bool:
        """Whether the object of a path is one of these."""
        other = Place.of(path)
        return (self.root, self.plural) == (other.root, other.plural) and self.namespace in ("", other.namespace)
