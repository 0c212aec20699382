"""Interpreter scripts of a control plane (``ResourceInterpreterCustomization``), run in a sandbox."""
