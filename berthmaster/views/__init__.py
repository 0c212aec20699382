"""What people see of decisions, plans and moves: rows, sections and drawings.

Pure functions of what the library knows. The commands print them, the extender serves them, the console shows them.
"""
