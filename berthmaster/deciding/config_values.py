"""The values of the configuration of moves that documents write as text, and the ranges of its numbers."""

from typing import Annotated, Final, Self

import msgspec

from berthmaster.model.durations import MAX_DURATION_S, duration_text, parse_duration_s
from berthmaster.model.errors import InputError, shown
from berthmaster.model.meta import ParsedText

PERCENTAGE: Final = msgspec.Meta(
    description="A percentage, such as 10%.", extra_json_schema={"type": "string", "pattern": "^[0-9]{1,4}%$"}
)
Share = Annotated[int, msgspec.Meta(ge=1, le=100)]
Limit = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
_PERCENT: Final = "%"


class Seconds(int, ParsedText):
    """A duration. Documents have a text such as ``10m``."""

    least_s = 0
    most_s = MAX_DURATION_S

    @classmethod
    def parse(cls, text: str) -> Self:
        seconds = parse_duration_s(text)
        if seconds < cls.least_s:
            raise InputError(f"{shown(text)} is too short; accepted is at least {duration_text(cls.least_s)}")
        if seconds > cls.most_s:
            raise InputError(f"{shown(text)} is too long; accepted is at most {duration_text(cls.most_s)}")
        return cls(seconds)

    def text(self) -> str:
        return duration_text(self)


class PositiveSeconds(Seconds):
    """A duration that is not 0."""

    least_s = 1


class Percent(int, ParsedText):
    """A percentage of at most 1000. Documents have a text such as ``10%``."""

    @classmethod
    def parse(cls, text: str) -> Self:
        number = text.removesuffix(_PERCENT)
        if not text.endswith(_PERCENT) or not (number.isascii() and number.isdigit()) or len(number) > 4:
            raise InputError(f"{shown(text)} is not a percentage; accepted are whole numbers such as 10%")
        if int(number) > 1000:
            raise InputError(f"{shown(text)} is too large; accepted are at most 1000%")
        return cls(number)

    def text(self) -> str:
        return f"{self}{_PERCENT}"


def duration_meta(default: str = "") -> msgspec.Meta:
    """Return the JSON schema of a duration. msgspec cannot write the default of such a field itself."""
    schema = {"type": "string", "pattern": "^(0|([0-9]+h)?([0-9]+m)?([0-9]+s)?)$", "minLength": 1}
    return msgspec.Meta(
        description="A duration, such as 90s, 10m or 1h30m.",
        extra_json_schema={**schema, "default": default} if default else schema,
    )


DURATION: Final = duration_meta()
