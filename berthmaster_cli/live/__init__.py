"""Reading of a live control plane into the documents that simulate, explain and lint work on.

``collections`` reads lists page by page with bounds. ``fleet`` decides what a simulation needs, ``workload`` what the
explanation of one workload needs. ``dump`` writes what was read, and
``redaction`` leaves out what a bug report must not hold.
"""
