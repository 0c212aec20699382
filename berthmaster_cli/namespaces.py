"""The namespace of objects that name none: that of -n, or of the context, or the default one with a warning."""

from collections.abc import Iterable, Sequence

from berthmaster.manifests import Document
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.views.texts import count_text
from berthmaster_cli.output import complain


def placed(documents: Iterable[Document], namespaces: Iterable[str], *, strict: bool = False) -> list[Document]:
    """Return documents that would be applied, each with its namespace.

    An object in the wrong namespace concerns no workload, so that a plan of it shows no move. A renderer such as
    kustomize or Helm often sets the namespace later.

    Args:
        namespaces: the namespaces that the user names, the first one first; empty ones do not count.
        strict: whether an object without any namespace is an error.

    Raises:
        InputError: ``strict``, and neither an object nor the user names its namespace.
    """
    given = list(documents)
    named = next(filter(None, namespaces), "")
    result = [each.with_namespace(named or DEFAULT_NAMESPACE) for each in given]
    taken = [after for before, after in zip(given, result, strict=True) if after is not before]
    if taken and not named:
        problem = _without_namespace(taken)
        remedy = "set it with -n, or render the files first, for example with kubectl kustomize or helm template"
        if strict:
            raise InputError(f"{problem}; {remedy}")
        complain(f"{problem}, which is taken as {DEFAULT_NAMESPACE!r}; {remedy}")
    return result


def _without_namespace(documents: Sequence[Document]) -> str:
    names = name_list([f"{each.kind} {each.name}" for each in documents], 5)
    if len(documents) == 1:
        return f"{names} has no namespace"
    return f"{count_text(len(documents), 'object')} have no namespace ({names})"
