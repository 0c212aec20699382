"""Why an API server could not call a webhook, and what to do. ``call_failures.yaml`` has the texts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from berthmaster.model.foreign_texts import CallFailure
from berthmaster_cli.doctor.facts import Setup, WebhookFacts

_Texts: TypeAlias = Mapping[str, Mapping[str, str]]
_FAILURES: Final[_Texts] = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes())


class CallDiagnosis(NamedTuple):
    """Why a webhook could not be called, and what to do."""

    name: str
    message: str
    remedy: str


def diagnosis_of(failure: CallFailure, webhook: WebhookFacts, setup: Setup) -> CallDiagnosis:
    """Return what to say about a failure."""
    host, texts = webhook.url.removeprefix("https://").partition("/")[0], _FAILURES[failure.name]
    remedy = texts["remedy"].format(bare=host.rpartition(":")[0] or host, setup=setup)
    return CallDiagnosis(failure.name.lower(), texts["message"].format(host=host), remedy)
