"""Policies of files that the webhook would refuse."""

from berthmaster.manifests import Manifests
from berthmaster.model.errors import FieldError
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.model.validation import update_errors
from berthmaster_cli.output import complain, complain_error


def check_policies(manifests: Manifests, *, lenient: bool) -> None:
    """Refuse the policies of files that the webhook would refuse. A stored policy is only reported."""
    if not manifests.policy_documents:
        return
    from webhook.admission.context import AdmissionContext  # noqa: PLC0415
    from webhook.admission.linting import lint  # noqa: PLC0415 - importing all rules takes a while
    from webhook.admission.rules.failover import PURGE_MODE  # noqa: PLC0415
    from webhook.admission.schema import UNKNOWN_FIELD  # noqa: PLC0415
    from webhook.admission.settings import AdmissionSettings, Level  # noqa: PLC0415

    # The loader has judged unknown fields, and knows which of them hold a workload.
    settings = AdmissionSettings(peer_checks=True, levels={UNKNOWN_FIELD: Level.OFF})
    context = AdmissionContext(settings, lambda: "")
    edits = {after.reference: before for before, after in manifests.policy_edits if before is not None}
    for document, policy in zip(manifests.policy_documents, manifests.policies, strict=True):
        found, before = lint(document.raw, context, DEFAULT_NAMESPACE), edits.get(policy.reference)
        problems = [FieldError(each.path, each.detail) for each in (found.errors if found is not None else ())]
        for each in found.warnings if found is not None and not document.stored else ():
            if each.rule == PURGE_MODE:
                complain_error(document.error(FieldError(each.path, each.detail)))
        for problem in (*problems, *(update_errors(before, policy) if before is not None else ())):
            error = document.error(problem)
            if not (lenient or document.stored):
                raise error
            complain(f"{error} (the webhook would refuse this policy)")
