"""The wires: one package each, with its types, codec and handlers."""
