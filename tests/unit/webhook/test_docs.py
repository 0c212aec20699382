from pathlib import Path

from webhook.admission.reviews import ROUTES

PAGE = (Path(__file__).parents[3] / "docs" / "webhook.md").read_text()


def test_the_page_has_every_path():
    assert [path for path in ROUTES if f"`{path}`" not in PAGE] == []
