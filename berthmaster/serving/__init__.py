"""HTTP serving on gunicorn: worker, TLS, tokens, probes, bodies, limits."""
