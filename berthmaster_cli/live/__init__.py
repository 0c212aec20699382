"""Reading of a live control plane into the documents that simulate, explain and lint work on.

``collections`` reads lists page by page with bounds. ``source`` decides what a simulation, or the explanation of one
workload, needs, and writes what was read.
"""
