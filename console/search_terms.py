"""What a visitor means by a text that names workloads: as kubectl takes it, or as words. Pure functions."""

from typing import NamedTuple

from berthmaster.model.kind_names import BUILT_IN_NAMES, resolve

_NAMESPACE_OPTIONS = ("-n", "--namespace")


class NamedThing(NamedTuple):
    """What a text names. Each part may be empty.

    Attributes:
        namespace: the namespace; a whole name after ``-n``.
        kind: the kind, in its full form.
        words: the other words; of a name with slashes its last part.
        exact: whether the namespace is a whole name.
    """

    namespace: str = ""
    kind: str = ""
    words: tuple[str, ...] = ()
    exact: bool = False

    @property
    def query(self) -> str:
        """The words that ``NAMESPACE/KIND/NAME`` of each meant workload contains."""
        whole = self.namespace and not self.exact
        parts = [f"{self.namespace}/"] if whole else []
        kind = f"{self.kind.lower()}/" if self.kind else "/" if whole and self.words else ""
        first, *others = self.words or ("",)
        return " ".join(filter(None, (*parts, f"{kind}{first}", *others)))


def named_in(text: str) -> NamedThing:
    """Return what a text names.

    Accepted are words, ``NAMESPACE/NAME``, ``KIND/NAME``, ``NAMESPACE/KIND/NAME``, and ``-n NAMESPACE`` before or after
    other words. A kind may be plural or short, as in ``deploy/web``.
    """
    namespace, words, rest = "", [], text.split()
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if option in _NAMESPACE_OPTIONS and (equals or rest):
            namespace = value if equals else rest.pop(0)
        else:
            words.append(word)
    if not words:
        return NamedThing(namespace, exact=bool(namespace))
    *before, name = words[0].split("/")
    found = NamedThing(namespace, "", (name, *words[1:]), bool(namespace)) if len(before) <= 2 else None
    if found is None:
        return NamedThing(namespace, "", tuple(words), bool(namespace))
    kind = resolve(before[-1], BUILT_IN_NAMES) if before else None
    if kind is not None:
        found, before = found._replace(kind=kind.kind), before[:-1]
    elif len(before) == 2:
        found, before = found._replace(kind=before[-1]), before[:-1]
    if before and not namespace:
        found = found._replace(namespace=before[0])
    return found
