"""Admission decisions: an AdmissionReview in, an AdmissionReview out.

``wire`` reads and writes AdmissionReviews. ``reviews`` holds the table of paths and reviews each kind. The code is
pure: no network, threads, clock or log. Settings and the source of new ids are arguments.
"""
