"""``berthmaster plan``: what changed objects would move, before they are applied."""
