"""The question of the page What if: as the form has it, and as the address carries it.

A question keeps the texts that the visitor wrote. So the form shows them again, and an address can be sent to others.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec
import msgspec.structs

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, shown
from berthmaster.simulation.change_texts import CHANGE_TEXTS, WrittenChanges
from berthmaster.simulation.plan_answer import Switch
from console.query import MAX_TEXT, QueryError

if TYPE_CHECKING:
    from werkzeug.datastructures import MultiDict

MAX_ADDRESS: Final = 3800
"""The most characters of a question in an address. The server reads request lines of up to 4,094 bytes. The answer to a
longer question has no address of its own."""
MAX_JSON_BYTES: Final = 64 * 2**10
"""The largest question that an address carries."""
MAX_ENTRIES: Final = 100
MAX_POLICY_BYTES: Final = 256 * 2**10
SEPARATORS: Final = re.compile(r"[\s,]+")
LABELS: Final = {
    **{each.field: each.label for each in CHANGE_TEXTS},
    "policies": "Policies",
    "deleted": "Policies to delete",
}
_WORDS: Final = (*(each.field for each in CHANGE_TEXTS), "deleted")
_HELP: Final = "open /what-if and ask again with the form"


class WhatIfQuestion(WrittenChanges, frozen=True):
    """What a visitor asks. The texts are as in the options of ``berthmaster simulate`` and ``plan``.

    ``lose`` also has whole domains such as ``region=eu-west-1``.

    Attributes:
        deleted: the policies that are deleted, as ``[NAMESPACE/]KIND/NAME``.
    """

    policies: str = ""
    deleted: tuple[str, ...] = ()
    failover: Switch = Switch.AUTO
    preemption: Switch = Switch.AUTO

    @property
    def empty(self) -> bool:
        """Whether no change is asked for."""
        return self == WhatIfQuestion(failover=self.failover, preemption=self.preemption)


def question_of(form: "MultiDict[str, str]") -> WhatIfQuestion:
    """Return the question that a form asks. Words are separated by spaces, commas or lines.

    Raises ``QueryError`` if it is too large.
    """
    words = {name: _words(form.getlist(name)) for name in _WORDS}
    policies = "\n".join(form.getlist("policies")).replace("\r\n", "\n").strip()
    failover, preemption = (_switch(form.getlist(name)) for name in ("failover", "preemption"))
    asked = WhatIfQuestion(policies=policies, failover=failover, preemption=preemption)
    return _bounded(msgspec.structs.replace(asked, **words))


def _bounded(question: WhatIfQuestion) -> WhatIfQuestion:
    """Return a question that costs a bounded time. Raises ``QueryError`` for one that is too large."""
    for name in _WORDS:
        count = len(getattr(question, name))
        if count > MAX_ENTRIES:
            raise QueryError(f"{LABELS[name]}: {count:,} words; at most {MAX_ENTRIES} are accepted")
        longest = max(getattr(question, name), key=len, default="")
        if len(longest) > MAX_TEXT:
            raise QueryError(f"{LABELS[name]}: {shown(longest)} is longer than {MAX_TEXT} characters")
    if len(question.policies) > MAX_POLICY_BYTES:
        count = len(question.policies)
        raise QueryError(f"{LABELS['policies']}: {count:,} characters; at most {MAX_POLICY_BYTES:,} are accepted")
    return question


def _switch(values: list[str]) -> Switch:
    """Return the choice of a form; ``auto`` for a value that the form does not have."""
    return Switch(values[0]) if values and values[0] in list(Switch) else Switch.AUTO


def encoded(question: WhatIfQuestion) -> str:
    """Return a question for an address: JSON, compressed, in the URL-safe alphabet of base64 without padding."""
    data = zlib.compress(msgspec.json.encode(question), 9)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> WhatIfQuestion:
    """Read a question from an address. Raises ``QueryError`` if the text is not a question, or too large."""
    if len(text) > MAX_ADDRESS:
        raise QueryError(f"question: longer than {MAX_ADDRESS} characters; {_HELP}")
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), b"-_", validate=True)
        reader = zlib.decompressobj()
        content = reader.decompress(data, MAX_JSON_BYTES)
        if not reader.eof or reader.unused_data:
            raise QueryError(f"question: {shown(text)} is incomplete or too large; {_HELP}")
        return _bounded(decode_json(WhatIfQuestion, content))
    except (UnicodeEncodeError, binascii.Error, zlib.error, FieldError):
        raise QueryError(f"question: {shown(text)} is not a question of this page; {_HELP}") from None


def _words(values: Iterable[str]) -> tuple[str, ...]:
    found = (word for value in values for word in SEPARATORS.split(value) if word)
    return tuple(dict.fromkeys(found))
