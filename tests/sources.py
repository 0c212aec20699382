"""The text of all sources, and the metrics that they define."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = "\n".join(
    path.read_text()
    for package in ("webhook", "extender", "certs", "console", "berthmaster_cli", "berthmaster")
    for path in sorted((ROOT / package).rglob("*.py"))
)
SERVICES = ("webhook", "extender", "console")
_OF_EACH_SERVICE = re.findall(r'f"\{name\}_([a-z_]+)"', (ROOT / "berthmaster" / "serving" / "metrics.py").read_text())
METRICS = {
    *re.findall(r'"((?:berthmaster|policy)_[a-z0-9_]+)"', SOURCES),
    *(f"berthmaster_{service}_{end}" for service in SERVICES for end in _OF_EACH_SERVICE),
}
"""The names of all metrics, and other words of this form."""
