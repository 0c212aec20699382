"""Admission decisions, pure: a review in, a review out.

``codec`` reads and writes AdmissionReviews, ``routes`` says which path reviews what, and the packages below decide.
Nothing here knows a network, a thread, a clock or a log: configuration and the source of fresh ids come in as
arguments.
"""
