# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a page as a browser does: its elements with their text."""

from __future__ import annotations

import html.parser
import re
import typing as t
from dataclasses import dataclass, field

EMPTY = {"meta", "br"}


@dataclass
class Element:
    """`text` is its own text and that of its children."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    pieces: list[str | Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        joined = "".join(x if isinstance(x, str) else x.text for x in self.pieces)
        return re.sub(r"\s+", " ", joined).strip()

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    def all(self, tag: str, cls: str = "") -> list[Element]:
        found = []
        for child in self.children:
            if child.tag == tag and (not cls or cls in child.classes):
                found.append(child)
            found += child.all(tag, cls)
        return found

    def after(self, anchor: str) -> list[Element]:
        """The elements between the heading with this id and the next heading of its level."""
        (body,) = self.all("body")
        numbers = [n for n, x in enumerate(body.children) if x.attributes.get("id") == anchor]
        rest = body.children[numbers[0] + 1 :]
        ends = [n for n, x in enumerate(rest) if x.tag == "h2"]
        return rest[: ends[0]] if ends else rest


class _Parser(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: t.Sequence[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        self.open[-1].pieces.append(element)
        if tag not in EMPTY:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].pieces.append(data)


def parsed(page: str) -> Element:
    """Each element is closed in order."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert [element.tag for element in parser.open] == ["root"]
    return parser.root


def rows_of(elements: t.Iterable[Element]) -> list[list[str]]:
    """The text of each cell of the tables below these elements."""
    return [
        [cell.text for cell in row.children] for element in elements for row in element.all("tr")
    ]
