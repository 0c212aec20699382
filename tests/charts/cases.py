"""Every switch of the chart, with values that turn it: what the tests render."""

from typing import Any, Final

from tables import data

Values = dict[str, Any]

CASES: Final[dict[str, Values]] = data("chart_values")
EXTENDER: Final[Values] = CASES["extender"]["extender"]
IMPACT: Final[Values] = CASES["impact"]["webhook"]["impact"]
