"""The page Help: what the words mean, and which keys work."""

from typing import Final

from flask import Blueprint, render_template

BLUEPRINT: Final = Blueprint("help", __name__)


@BLUEPRINT.get("/help")
def show() -> str:
    """Show the page."""
    return render_template("help.html")
