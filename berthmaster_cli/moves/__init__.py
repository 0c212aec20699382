"""``berthmaster moves``, ``drain`` and ``undrain``. ``reading`` reads a control plane or a dump, and watches."""
