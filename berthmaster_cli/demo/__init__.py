"""``berthmaster demo``: run both services on loopback with temporary certificates, and send requests."""
