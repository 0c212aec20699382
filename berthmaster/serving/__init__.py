"""HTTP servers of services: gunicorn, TLS, tokens, probes, limits. ``docs/serving.md`` describes them."""
