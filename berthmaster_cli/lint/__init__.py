"""``berthmaster lint``: check manifests offline with the defaults and rules of the webhook."""
