"""Where the extender is, and how to authenticate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from berthmaster.model.errors import InputError

REVIEW_PATH: Final = "/v1/review"
"""The path of reviews (``berthmaster.native_api.review``)."""


@dataclass(frozen=True, slots=True)
class ExtenderAccess:
    """Where the extender is, and how to authenticate.

    Attributes:
        url: ``http://HOST:PORT`` or ``https://HOST:PORT``.
        token_file: its first line is the bearer token, up to a comma; None for no token.
    """

    url: str
    ca_file: Path | None = None
    token_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    connections: int = 8

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            InputError: it is no address of a service.
        """
        parts = urlsplit(self.url)
        try:
            valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid or parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None:
            raise InputError(
                f"{self.url!r} is not an address of the extender; accepted is https://HOST:PORT or http://HOST:PORT"
            )

    @property
    def files(self) -> list[Path]:
        given = (self.ca_file, self.token_file, self.certificate_file, self.key_file)
        return [each for each in given if each is not None]
