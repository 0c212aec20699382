"""The three paths of the plugin, and what KubeAdmiral is told when a request could not be answered."""

from collections.abc import Callable, Sequence
from typing import Final

from berthmaster.model.decode import encode_json
from berthmaster.runtime.logs import fields
from extender.protocols.kubeadmiral.plugin import Answered, filter_cluster, score_cluster, select_clusters
from extender.protocols.kubeadmiral.wire import FilterResponse, ScoreResponse, SelectResponse
from extender.protocols.problem import Problem
from extender.protocols.route import Call, Handler, Refuser, Reply, Route, problem_reply
from extender.protocols.services import Services

PROTOCOL: Final = "kubeadmiral"
PREFIX: Final = "/kubeadmiral/v1alpha1"
# KubeAdmiral reads any status but 200 as a failed call. These mean that an entitled caller was not understood or
# not served in time; others (no such path, not authenticated) are told as they are.
_IN_DOUBT: Final = frozenset({400, 408, 413, 500, 503})


def routes(*, pass_in_doubt: bool = True) -> Sequence[Route]:
    """The paths of the protocol.

    Args:
        pass_in_doubt: a filter request that cannot be answered lets the cluster pass, since a failure would drive the
            workload out of it; otherwise the failure is told.
    """

    def filter_answer(body: bytes) -> Answered[FilterResponse]:
        return filter_cluster(body, pass_in_doubt=pass_in_doubt)

    def filter_refusal(problem: Problem) -> Reply:
        return _reply(FilterResponse(selected=True)) if pass_in_doubt else _reply(_rejected(problem))

    verbs: tuple[tuple[str, Handler, Refuser], ...] = (
        ("filter", _handler("filter", filter_answer), filter_refusal),
        ("score", _handler("score", score_cluster), _score_refusal),
        ("select", _handler("select", select_clusters), _select_refusal),
    )
    return [
        Route("POST", f"{PREFIX}/{verb}", handler, PROTOCOL, refuse=_refuser(in_doubt), prompt=True)
        for verb, handler, in_doubt in verbs
    ]


def _handler(
    verb: str,
    answer: Callable[[bytes], Answered[FilterResponse]]
    | Callable[[bytes], Answered[ScoreResponse]]
    | Callable[[bytes], Answered[SelectResponse]],
) -> Handler:
    def handle(services: Services, call: Call) -> Reply:
        answered = answer(call.body)
        services.meter.decided(PROTOCOL, verb, answered.verdict)
        if answered.doubt:
            services.meter.doubted(PROTOCOL, verb)
            services.log.warning(
                "%s answered in doubt: %s", verb, answered.doubt, extra=fields(request_id=call.request_id)
            )
        return _reply(answered.response)

    return handle


def _refuser(in_doubt: Refuser) -> Refuser:
    return lambda problem: in_doubt(problem) if problem.status in _IN_DOUBT else problem_reply(problem)


def _score_refusal(problem: Problem) -> Reply:
    return _reply(ScoreResponse(score=0, error=problem.detail))


def _select_refusal(problem: Problem) -> Reply:
    return _reply(SelectResponse([], problem.detail))


def _rejected(problem: Problem) -> FilterResponse:
    return FilterResponse(selected=False, error=problem.detail)


def _reply(response: FilterResponse | ScoreResponse | SelectResponse) -> Reply:
    return Reply(encode_json(response))
