"""Berthmaster's own HTTP API: schedule bindings, simulate changes, show the fleet. An OpenAPI document describes it.

A handler raises a ``Refusal`` if a parameter or an object is invalid, the service does not watch or know what the
question is about, or the deadline has passed, and a ``FieldError`` with the path in the body if a change is invalid.
"""

from extender.protocols.native.drift import Drifts
from extender.protocols.native.plan import Planner
from extender.protocols.native.routes import routes
from extender.protocols.native.schedule import PROTOCOL

__all__ = ["PROTOCOL", "Drifts", "Planner", "routes"]
