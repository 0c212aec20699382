"""A control plane in memory whose policies pass the gate: each write of a policy is reviewed, as an API server does.

Who reviews is an argument: the webhook in this process, or one that runs as a process of its own.
"""

import itertools
import json
from collections.abc import Callable
from typing import Final, NamedTuple

from karmada_model.stage import Stage
from kube_store import JSON
from reviews import admission_review, patched

ACCEPT: Final = "policy.berthmaster.io/accept-plan"

Ask = Callable[[str, JSON], JSON]
"""Send an AdmissionReview to a path of the webhook, and return the response."""


class Verdict(NamedTuple):
    """The answer to a write. ``text`` is the refusal, or the warnings."""

    allowed: bool
    text: str


class GatedPlane:
    """Writes policies of a control plane after a review."""

    def __init__(self, stage: Stage, ask: Ask) -> None:
        self._stage, self._ask = stage, ask
        self._ids = itertools.count()

    def write(self, policy: JSON, *, author: str = "alice", accepts: str = "", dry_run: bool = False) -> Verdict:
        """Create or replace a policy."""
        old = self._stage.get(policy)
        metadata = {
            **(old or self._identified(policy))["metadata"],
            "annotations": {ACCEPT: accepts} if accepts else {},
        }
        new = {**policy, "metadata": metadata}
        response = self._reviewed(new, old, "CREATE" if old is None else "UPDATE", author, dry_run=dry_run)
        if response["allowed"] and not dry_run:
            self._stage.put(patched(new, response))
        return _verdict(response)

    def delete(self, policy: JSON, *, author: str = "alice", dry_run: bool = False) -> Verdict:
        """Delete a policy."""
        response = self._reviewed(None, self._stage.get(policy), "DELETE", author, dry_run=dry_run)
        if response["allowed"] and not dry_run:
            self._stage.delete(policy)
        return _verdict(response)

    def _identified(self, policy: JSON) -> JSON:
        """Return a new policy with a permanent id of its own, as karmada-webhook gives it."""
        metadata = policy["metadata"]
        labels = {label: f"id-{next(self._ids)}" for label in metadata["labels"]}
        return {**policy, "metadata": {**metadata, "labels": labels}}

    def _reviewed(self, new: JSON | None, old: JSON | None, operation: str, author: str, *, dry_run: bool) -> JSON:
        subject = new or old
        assert subject is not None
        name = subject["metadata"]["name"]
        review = admission_review(new, old, operation=operation, username=author, name=name, dryRun=dry_run)
        return self._ask(f"/impact-{subject['kind'].lower()}", json.loads(json.dumps(review)))


def _verdict(response: JSON) -> Verdict:
    text = (response.get("status") or {}).get("message") or " | ".join(response.get("warnings") or ())
    return Verdict(response["allowed"], text)
