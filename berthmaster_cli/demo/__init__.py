"""``berthmaster demo``: both services on loopback, with throw-away certificates, asked real questions."""
