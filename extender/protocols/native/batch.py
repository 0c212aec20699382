"""JSON lines in, JSON lines out: the work behind ``/v1/schedule/batch``.

Lines are answered in their order, as many at a time as have come, and the answers leave before more lines are read: a
client may wait for an answer before it sends the next line, or send all it has, as long as it reads meanwhile.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError, InputError
from berthmaster.runtime.logs import log_exceptions
from extender.protocols.native.deciding import count, decide
from extender.protocols.native.wire import BatchAnswer, BatchLine
from extender.protocols.problem import Problem, Refusal, field_problem, problem
from extender.protocols.route import Call
from extender.protocols.services import Services


def answer_batch(services: Services, call: Call, protocol: str, *, diagnose: bool) -> Iterator[bytes]:
    """The answers to a batch. What is wrong with a line is said in its answer; the others are answered all the same."""
    number, most = 0, services.limits.batch_lines
    try:
        for burst in call.bursts:
            lines = list(filter(bytes.strip, burst))
            yield from _burst(services, call, protocol, number, lines[: most - number], diagnose=diagnose)
            number += len(lines)
            if number > most:
                yield _encoded(BatchAnswer(problem=problem(413, f"more than {most} lines", call.request_id)))
                return
    except Refusal as refusal:
        yield _encoded(BatchAnswer(problem=_problem(refusal, call)))


def _burst(
    services: Services, call: Call, protocol: str, before: int, lines: Sequence[bytes], *, diagnose: bool
) -> Iterator[bytes]:
    """The answers to lines that have come together, as one piece; to those that there is time for."""
    answered: list[bytes] = []
    refusal: Refusal | None = None
    try:
        services.check_deadline(call)
        for number, line in enumerate(lines, start=before + 1):
            services.check_deadline(call)
            answered.append(_answer(services, call, protocol, number, line, diagnose=diagnose))
    except Refusal as late:
        refusal = late
    if answered:
        yield b"".join(answered)
    if refusal is not None:
        raise refusal


def _answer(services: Services, call: Call, protocol: str, number: int, line: bytes, *, diagnose: bool) -> bytes:
    """The answer to a line, also if it makes us crash: the others have nothing to do with it."""
    answers: list[bytes] = []

    def answer() -> None:
        answers.append(_judged(services, call, protocol, number, line, diagnose=diagnose))

    if not log_exceptions(
        answer, services.log, "a line of a batch failed", request_id=call.request_id, line=str(number)
    ):
        told = problem(500, "the service failed; its log says why", call.request_id)
        answers.append(_encoded(BatchAnswer(_id_of(line), number, problem=told)))
    return answers[0]


def _judged(services: Services, call: Call, protocol: str, number: int, line: bytes, *, diagnose: bool) -> bytes:
    asked = None
    try:
        asked = decode_json(BatchLine, line)
        decided = decide(services, asked, size_bytes=len(line), diagnose=diagnose)
    except FieldError as error:
        told = field_problem(error, call.request_id)
    except InputError as error:
        told = problem(400, str(error), call.request_id)
    except Refusal as refusal:
        told = _problem(refusal, call)
    else:
        count(services, protocol, decided)
        return _encoded(BatchAnswer(asked.id, number, decided))
    return _encoded(BatchAnswer(asked.id if asked is not None else _id_of(line), number, problem=told))


def _problem(refusal: Refusal, call: Call) -> Problem:
    return problem(refusal.status, refusal.detail, call.request_id, refusal.errors)


def _encoded(answer: BatchAnswer) -> bytes:
    return encode_json(answer) + b"\n"


class _Identified(msgspec.Struct):
    id: str | int | None = None


def _id_of(line: bytes) -> str | int | None:
    """The id of a line that is otherwise wrong."""
    try:
        return _IDENTIFIED.decode(line).id
    except (msgspec.DecodeError, RecursionError):
        return None


_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)
