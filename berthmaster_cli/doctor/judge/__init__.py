"""Makes findings of facts: pure, each module one part of a set-up."""
