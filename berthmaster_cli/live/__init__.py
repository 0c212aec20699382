"""Reading of a live control plane into the documents that simulate, explain and lint work on.

``collections`` reads lists page by page with bounds. ``fleet`` decides what a simulation needs. ``source`` decides what
the explanation of one workload needs, and writes what was read.
"""
