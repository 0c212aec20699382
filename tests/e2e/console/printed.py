"""The text of a PDF that Chromium printed: of each page, in the order of drawing, without spaces.

Chromium writes glyph numbers, and for each font a table from these numbers to Unicode. That is all that is read here.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

_OBJECT: Final = re.compile(rb"(\d+) 0 obj(.*?)endobj", re.DOTALL)
_STREAM: Final = re.compile(rb"stream\r?\n(.*?)\r?\nendstream", re.DOTALL)
_SHOWN: Final = re.compile(rb"/(\w+) [\d.]+ Tf|<([0-9A-Fa-f]+)>")
_CHARACTER: Final = re.compile(rb"<([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)>")
_RANGE: Final = re.compile(rb"<([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)>")


def text_of(pdf: bytes) -> list[str]:
    """Return the text of each page."""
    objects = {int(number): content for number, content in _OBJECT.findall(pdf)}
    pages = [each for each in objects.values() if re.search(rb"/Type\s*/Page\b", each)]
    return ["".join(_page(objects, each)).replace(" ", "").replace("\xa0", "") for each in pages]


def _page(objects: Mapping[int, bytes], page: bytes) -> Iterator[str]:
    fonts = {
        name: _characters(objects, int(number))
        for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", _resources(objects, page))
    }
    font: Mapping[int, str] = {}
    for name, shown in _SHOWN.findall(_stream(objects, int(_one(rb"/Contents (\d+) 0 R", page)))):
        if name:
            font = fonts.get(name, {})
        else:
            yield "".join(font.get(int(shown[at : at + 4], 16), "") for at in range(0, len(shown), 4))


def _resources(objects: Mapping[int, bytes], page: bytes) -> bytes:
    referred = re.search(rb"/Resources (\d+) 0 R", page)
    return page if referred is None else objects[int(referred[1])]


def _characters(objects: Mapping[int, bytes], font: int) -> dict[int, str]:
    table = re.search(rb"/ToUnicode (\d+) 0 R", objects[font])
    if table is None:
        return {}
    found: dict[int, str] = {}
    text = _stream(objects, int(table[1]))
    for part in re.findall(rb"beginbfchar(.*?)endbfchar", text, re.DOTALL):
        found |= {int(code, 16): _decoded(each) for code, each in _CHARACTER.findall(part)}
    for part in re.findall(rb"beginbfrange(.*?)endbfrange", text, re.DOTALL):
        for first, last, begin in _RANGE.findall(part):
            for code in range(int(first, 16), int(last, 16) + 1):
                found[code] = chr(int(begin, 16) + code - int(first, 16))
    return found


def _decoded(text: bytes) -> str:
    return bytes.fromhex(text.decode()).decode("utf-16-be")


def _stream(objects: Mapping[int, bytes], number: int) -> bytes:
    content = objects[number]
    data = _one(_STREAM.pattern, content)
    # The last byte of a stream can look like the line break after it.
    return zlib.decompressobj().decompress(data) if b"/FlateDecode" in content else data


def _one(pattern: bytes, text: bytes) -> bytes:
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None, pattern
    return found[1]
