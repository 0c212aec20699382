"""Asks the extender what a change of a policy would move. A dead or slow extender costs reviews almost nothing."""
