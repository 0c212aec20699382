"""``sort.Sort`` of Go 1.26 wrote the golden file: each line has weights and the resulting order."""

import json
from pathlib import Path

import pytest

from berthmaster.scheduling.karmada.division import order_by_weight

GOLDEN = Path(__file__).parents[3] / "golden" / "go_sort.jsonl"
RECORDED = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize(
    "recorded", [pytest.param(each, id=f"{len(each['weights'])} {each['name']}") for each in RECORDED]
)
def test_equal_weights_have_the_order_of_go(recorded):
    assert order_by_weight(recorded["weights"]) == recorded["order"]
