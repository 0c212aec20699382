"""``berthmaster plan``: what a change of objects would move, before it is applied."""
