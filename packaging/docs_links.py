"""A hook of MkDocs: links that leave docs/ lead to the repository, or become plain text without one."""

import re
from pathlib import PurePosixPath
from typing import Any, Final

_LINK: Final = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs's objects
    """Return the text of a page with links that the site can follow."""
    folder = PurePosixPath(page.file.src_uri).parent

    def led(match: re.Match[str]) -> str:
        text, path, anchor = match[1], match[2], match[3] or ""
        up = sum(part == ".." for part in PurePosixPath(path).parts)
        if up <= len(folder.parts):
            return match[0]
        below = "/".join(PurePosixPath(path).parts[up:])
        return f"[{text}]({config.repo_url}/blob/main/{below}{anchor})" if config.repo_url else text

    return _LINK.sub(led, markdown)
