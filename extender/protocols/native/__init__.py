"""Berthmaster's own HTTP API: schedule bindings, simulate changes, show the fleet. An OpenAPI document describes it."""

from extender.protocols.native.plan import Planner
from extender.protocols.native.routes import routes
from extender.protocols.native.schedule import PROTOCOL

__all__ = ["PROTOCOL", "Planner", "routes"]
