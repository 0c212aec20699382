"""The protocols of the extender: one package for each wire.

A protocol is a package with a function ``routes(...) -> Sequence[Route]``. A handler is a function of the service's
resources (``Services``) and one request (``Call``) that returns a ``Reply``. It uses no framework and no socket. It
raises ``FieldError`` for an invalid body, and ``Refusal`` for any other error with a status. The application checks
method, size, deadline and authentication before the call, and writes errors in the format of the ``Route``
(``Route.refuse``; problem details by default).

A protocol creates its own state, such as caches, in ``routes``; several threads call its handlers at once. All
protocols share the fleet in ``Services.state``: ``with services.state.reading() as cache``.
"""
