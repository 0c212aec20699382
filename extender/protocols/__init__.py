"""What the extender speaks: one package per wire.

A protocol is a package with a function ``routes(...) -> Sequence[Route]``; ``extender.app`` puts the routes of all
protocols into one table. A handler is a function of what the service has (``Services``) and one request (``Call``), and
gives a ``Reply``; it knows no framework, no socket and no thread. What goes wrong it raises: ``FieldError`` for a body
that is no good, ``Refusal`` for anything else that has a status. The frame around it checks method, size, deadline and
authentication before it is called, and has each ``Route`` say its refusals in its own protocol's shape
(``Route.refuse``; problem details by default).

Memory of a protocol's own, such as decoded clusters, is made in ``routes`` and closed over by its handlers; several
threads call them at once. The fleet that all share is ``Services.state``, entered with ``with services.state.reading()
as memory``.
"""
