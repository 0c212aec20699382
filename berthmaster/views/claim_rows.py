"""Why a policy holds a workload, in words. ``simulation.report.claim_rows`` says why others do not."""

from berthmaster.model.claims import holder
from berthmaster.model.errors import FieldError
from berthmaster.model.policy import PolicyReference
from berthmaster.simulation.claim_records import metadata_of
from berthmaster.simulation.workload import SimulatedWorkload


def why_held(workload: SimulatedWorkload) -> str:
    """Return why the policy that holds a workload holds it, or why none does. One sentence."""
    held_by, recorded = workload.held_by, _recorded(workload)
    if held_by is None:
        return _why_free(workload)
    if recorded == held_by:
        lasts = "its labels and annotations name this policy, and a claim lasts until the policy releases the workload"
        if workload.claim is None and workload.template is not None:
            return f"{lasts}; the policy is not among the known ones"
        return f"{lasts}, or until another policy takes it by preemption"
    if recorded is not None:
        return f"the record of {recorded} is not in effect, and this policy is the next one"
    return "no claim is recorded yet, and this policy ranks first among those that match"


def _why_free(workload: SimulatedWorkload) -> str:
    if workload.unscheduled is not None:
        return workload.unscheduled.message
    if workload.template is None:
        return "its binding records no policy, and its template is not known"
    return "no policy selects it"


def _recorded(workload: SimulatedWorkload) -> PolicyReference | None:
    found = None
    if workload.template is not None:
        try:
            found = holder(metadata_of(workload))
        except FieldError:
            found = None
    if found is None and workload.binding is not None:
        found = holder(workload.binding.metadata)
    return found
