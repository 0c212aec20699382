"""The project's own HTTP API: bindings in, decisions out; what-if; the fleet; described by an OpenAPI document."""

from extender.protocols.native.routes import PROTOCOL, routes

__all__ = ["PROTOCOL", "routes"]
