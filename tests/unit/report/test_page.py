# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML page: what a browser reads in it is what the results have, and hostile texts stay text."""

from __future__ import annotations

import re
import time
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.report import page as rendering
from ansible_collections.virt.placement.plugins.plugin_utils.report.markdown import markdown_text
from ansible_collections.virt.placement.plugins.plugin_utils.report.page import html_page
from ansible_collections.virt.placement.plugins.plugin_utils.report.read_content import read_content
from tests.support.cluster import Cluster, machine

from .pages import Element, parsed, rows_of
from .results import (
    FINE,
    RULE,
    TIME,
    drill_of,
    move,
    placement_of,
    rollout_of,
    shop,
    shop_content,
    shop_drill,
    shop_placement,
)

HOSTILE = "<script>alert(1)</script><img src=//evil.example onerror=x>\"'{{ 7*7 }}"


@pytest.fixture(scope="module")
def page() -> Element:
    return parsed(html_page(shop_content()))


def tiles(page: Element) -> dict[str, int]:
    """State to number."""
    (found,) = page.all("ul", "tiles")
    return {
        tile.classes[0]: int(re.sub(r"\D", "", tile.all("b")[0].text)) for tile in found.all("li")
    }


def test_tiles_have_the_numbers_of_the_summary_and_begin_with_the_worst(page: Element) -> None:
    summary = shop_placement()["summary"]

    assert list(tiles(page)) == ["violated", "pending", "down", "not_enforced", "satisfied"]
    assert {state: summary[state] for state in tiles(page)} == tiles(page)


def test_one_sentence_has_the_answer(page: Element) -> None:
    answers = [x for x in page.all("p", "answer") if "violated" in x.classes]

    assert [x.text for x in answers] == [
        "2 of 20 VMs violate a required rule; 1 has no node; 1 is down, since the node is not Ready."
        " 1 move would repair the rules. If zone b fails, 1 VM has no node."
    ]


def test_each_vm_is_on_its_node_in_its_zone(page: Element) -> None:
    result = shop_placement()
    where: dict[str, str] = {}
    for zone in page.all("section", "zone"):
        for node in zone.all("div", "node"):
            heading = node.all("h4")
            name = heading[0].text.split()[0] if heading else ""
            chips = [chip.pieces[0] for chip in node.all("li", "vm")]
            vms = [str(text).split()[1] for text in chips]
            for line in node.all("p"):
                if line.all("small") and node.all("details"):
                    vms += line.text.partition(" ")[2].split(", ")
            if heading:
                assert int(heading[0].text.split()[1]) == len(vms), heading[0].text
            where |= dict.fromkeys(vms, name)
    listed = {x["instance"]["name"]: x["node"] for x in result["instances"]}
    listed |= {x["instance"]: x["node"] for x in result["satisfied_instances"]}
    assert where == listed


def test_nodes_without_vms_are_shown_with_their_state(page: Element) -> None:
    nodes = {
        node.all("h4")[0].text.split()[0]: node.text
        for node in page.all("div", "node")
        if node.all("h4")
    }

    assert set(nodes) == {"n1", "n2", "n3", "n4", "n5", "n6", "n7"}
    assert nodes["n6"] == "n6 0 ⚠ cordoned"
    assert nodes["n2"].startswith("n2 0 ⚠ in maintenance")
    assert nodes["n2"].endswith("node n2 is drained since 2026-11-25T03:04:05Z: firmware")
    assert nodes["n7"].startswith("n7 1 ⚠ not ready")


def test_good_vms_of_a_full_node_are_folded(page: Element) -> None:
    (node,) = [x for x in page.all("div", "node") if x.text.startswith("n5")]
    (folded,) = node.all("details")

    assert folded.all("summary")[0].text == "✓ 11 satisfied"
    assert "open" not in folded.attributes


def test_problems_are_listed_with_rule_reason_and_better_nodes(page: Element) -> None:
    rows = rows_of(page.after("problems"))[1:]

    assert [row[1] for row in rows] == [
        "shop/web-2",
        "shop/web-3",
        "shop/gpu",
        "shop/late",
        "shop/tape",
    ]
    assert rows[0][0] == "✖ violated"
    assert rows[0][2] == "n3"
    assert rows[0][3].startswith(
        f"{RULE} VirtualMachineInstance shop/web-3 is in the same zone 'b'"
    )
    assert rows[0][3].endswith("better: n5, n7")
    assert rows[2][3].startswith("0/7 nodes are available: ")
    assert rows[4] == ["✓ satisfied ▼ down", "shop/tape", "n7", "the node is not Ready"]


@pytest.mark.parametrize(
    ("rollout", "cells"),
    [
        (rollout_of(move("web-3", "n4", "n5")), ["1", "2 → 1", "0 → 1", "0"]),
        (rollout_of(move("web-2", "n5", "n3", "moved")), ["1", "1 → 2", "1 → 0", "0"]),
        (rollout_of(move("web-3", "n4", "n5", "moved")), ["1", "2", "0", "0"]),
        (rollout_of(move("web-3", "n4", "n5", "failed")), ["1", "2", "0", "0"]),
        (None, ["1", "2", "0", "0"]),
    ],
    ids=["planned", "moved", "moved-again-since", "failed", "without-rollout"],
)
def test_rules_count_their_vms_by_zone_before_and_after(
    rollout: dict[str, t.Any] | None, cells: list[str]
) -> None:
    page = parsed(html_page(shop_content(rollout=rollout)))
    rows = {row[0]: row for row in rows_of(page.after("rules"))}

    assert rows["rule"] == [
        "rule",
        "state",
        "instances",
        "moves needed",
        "zone a",
        "zone b",
        "zone c",
        "no zone",
    ]
    assert rows[RULE] == [RULE, "✖ violated (2)", "3", "1 move", *cells]
    assert rows[FINE][1:] == ["✓ satisfied", "3", "", "1", "1", "1", "0"]
    folded = [x for element in page.after("rules") for x in [element] if x.tag == "details"]
    assert [x.all("summary")[0].text for x in folded] == ["✓ 1 rule satisfied"]


def test_drill_has_a_cell_for_each_zone_and_node(page: Element) -> None:
    drill = shop_drill()
    expected = {
        (domain["domain"]): (
            domain.get("min_unschedulable", 0) + len(domain.get("not_recreated", [])),
            domain["instances_to_schedule"],
        )
        for domain in (*drill["domains"], *drill["without_impact"])
    }
    section = page.after("drill")
    cells = [x for element in section for x in (*element.all("td"), *element.all("span"))]
    seen = {}
    for cell in (x for x in cells if x.classes):
        match = re.match(r"(\d+) (?:zone|node) (\w+) .*?(\d+) to place", cell.text)
        if match:
            seen[match[2]] = (int(match[1]), int(match[3]))
            assert ("impossible" in cell.classes) == (seen[match[2]][0] > 0)

    assert seen == expected
    assert len(seen) == drill["counts"]["domains"] == 10
    assert seen["n4"][0] == 1


def test_findings_have_their_fix_the_errors_first(page: Element) -> None:
    findings = shop_placement()["findings"]
    rows = rows_of(page.after("findings"))[1:]

    assert len(rows) == len(findings)
    assert rows[0][0] == "✖ error"
    assert {(row[0].split()[1], row[1].split()[0].split("VirtualMachine")[0]) for row in rows} == {
        (finding["severity"], finding["name"]) for finding in findings
    }
    for finding in findings:
        assert any(row[2] == finding["why"] + finding["advice"] for row in rows), finding


def test_moves_of_the_last_rollout_are_listed() -> None:
    rollout = rollout_of(
        move("web-2", "n5", "n3", "moved"),
        {**move("db", "n1", "", "failed"), "reason": "it did not end in 600 s"},
        stop_reason="max_moves (2) is reached",
    )
    page = parsed(html_page(shop_content(rollout=rollout)))
    section = page.after("moves")

    assert "Last rollout" in [link.text for link in page.all("a")]
    assert section[0].text == "1 moved, 1 failed, 1 not moved. max_moves (2) is reached"
    assert rows_of(section)[1:] == [
        ["shop/web-2", "n5", "n3", "migrate", "moved in 21 s"],
        ["shop/db", "n1", "", "migrate", "failed in 21 s it did not end in 600 s"],
        ["shop/late", "n3", "stays", "", "skipped needs restart"],
    ]


def test_page_is_one_file_that_asks_for_nothing() -> None:
    text = html_page(shop_content())

    assert not re.search(r"<(script|link|img|iframe|object|embed|form)\b", text)
    assert not re.search(r"\b(src|action|on\w+)=|url\(|@import", text)
    assert re.findall(r'href="([^#][^"]*)"', text) == []
    assert "default-src 'none'" in text


def with_texts(value: t.Any, skip: t.Container[str] = ()) -> t.Any:
    """The result with a hostile end on each text that a tenant or a server may write."""
    if isinstance(value, dict):
        return {key: item if key in skip else with_texts(item, skip) for key, item in value.items()}
    if isinstance(value, list):
        return [with_texts(item, skip) for item in value]
    return value + HOSTILE if isinstance(value, str) and value else value


ENUMERATED = {"verdict", "forecast", "event", "state", "topology_key", "cluster"}


def test_hostile_names_stay_text() -> None:
    placement = with_texts(shop_placement(), ENUMERATED)
    drill = with_texts(shop_drill(), ENUMERATED)
    rollout = with_texts(rollout_of(move("web-3", "n4", "n5")), ENUMERATED)
    content = read_content(
        placement, drill=drill, rollout=rollout, cluster=f"prod{HOSTILE}", time=TIME
    )

    text = html_page(content)
    page = parsed(text)

    assert not page.all("script") and not page.all("img")
    assert "49" not in page.all("title")[0].text
    known = {"class", "id", "href", "lang", "name", "content", "charset", "http-equiv"}
    known |= {"open", "data-label", "style"}
    every = [element for tag in re.findall(r"<(\w+)", text) for element in page.all(tag)]
    assert {name for element in every for name in element.attributes} <= known
    assert not any("alert" in value for x in every for value in x.attributes.values())
    assert f"shop{HOSTILE}/web-2{HOSTILE}" in page.all("table")[0].text


def test_lists_that_could_not_be_read_are_shown() -> None:
    result = shop_placement()
    gap = {"resource": "pods", "namespace": "lab", "verb": "list", "reason": "forbidden"}
    result["permission_gaps"] = [gap]
    result["summary"]["unknown"] = 1
    page = parsed(html_page(shop_content(placement=result)))

    assert tiles(page)["unknown"] == 1
    (unread,) = page.after("unread")[1:2]
    assert unread.text == "? cannot list pods in namespace lab: forbidden"
    assert "1 is unknown" in page.all("p", "answer")[0].text


def test_drill_that_could_not_be_made_is_unknown() -> None:
    drill = shop_drill()
    drill |= {"domains": [], "without_impact": [], "counts": {"domains": 0, "impact": 0}}
    drill |= {"forecast": "unknown", "reasons": ["unknown: cannot list pods: forbidden"]}
    page = parsed(html_page(shop_content(drill=drill)))

    assert page.after("drill")[0].text == "? unknown: cannot list pods: forbidden"
    assert page.all("p", "answer")[0].text.endswith("What a failure does is unknown.")


def test_label_key_without_nodes_is_named() -> None:
    drill = {**shop_drill(), "left_out": ["example.com/rack"]}
    section = parsed(html_page(shop_content(drill=drill))).after("drill")

    assert (
        section[0].text
        == "? No node has the label example.com/rack, so its failures were left out."
    )


def test_failure_whose_forecast_is_unknown_has_no_zero_beside_it() -> None:
    drill = shop_drill()
    drill["domains"][0] |= {"forecast": "unknown", "min_unschedulable": 0, "not_recreated": []}
    content = read_content(placement_of(shop()), drill=drill, time=TIME)
    page = parsed(html_page(content))

    shown = [x.text for x in page.all("summary") if "unknown" in x.text]
    assert len(shown) == 1
    assert shown[0].endswith("unknown: whether any has no node then")
    assert "?" in {x.text for x in page.all("b")}
    (row,) = (line for line in markdown_text(content).splitlines() if "| unknown |" in line)
    assert row.split("|")[4].strip() == "?"


def test_cluster_without_a_problem_has_a_short_page() -> None:
    made = shop()
    for ref in list(made.workloads):
        if not ref.name.startswith("app"):
            del made.workloads[ref]
            made.machines.pop(ref.name, None)
            made.pods = {key: pod for key, pod in made.pods.items() if ref.name not in key[1]}
    page = parsed(html_page(read_content(placement_of(made), time=TIME)))

    assert page.all("p", "answer")[0].text == "All 3 VMs run where the required rules allow."
    assert tiles(page) == {"satisfied": 3}
    ids = {x.attributes.get("id") for x in page.all("h2")}
    assert ids & {"problems", "drill", "moves", "unread"} == set()


def test_a_drain_is_named_as_one() -> None:
    page = parsed(html_page(shop_content(drill=drill_of(shop(), "drain"))))

    assert "If a zone or a node is drained" in [x.text for x in page.all("h2")]


def test_long_tables_end_with_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "ROWS", 2)
    monkeypatch.setattr(rendering, "CELLS", 0)
    page = parsed(html_page(shop_content()))

    assert "And 3 more with a problem; each is on its node below." in [
        x.text for x in page.after("problems")
    ]
    assert "1 more nodes, 1 with an impact" not in page.text
    assert "2 more nodes, 1 with an impact" in page.text


def _luminance(color: str) -> float:
    """Relative luminance of `#rgb` or `#rrggbb` (WCAG 2.2)."""
    digits = color.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_each_text_has_contrast_in_light_and_dark() -> None:
    """4.5 to 1 for small text (WCAG 2.2, 1.4.3). A text that is partly transparent would have less."""
    text = html_page(shop_content())
    grounds: dict[str, tuple[str, ...]]
    grounds = {"fg": ("bg", "card"), "mute": ("bg", "card"), "soft": ("bg", "softb")}
    grounds |= {"pref": ("card", "prefb"), "ok": ("okb",), "bad": ("badb",), "unk": ("unkb",)}

    themes = re.findall(r":root\{(.*?)\}", text)

    assert len(themes) == 2
    for theme in themes:
        color = dict(entry.removeprefix("--").split(":") for entry in theme.split(";"))
        assert set(color) == {*grounds, "line", *(x for pair in grounds.values() for x in pair)}
        for front, backs in grounds.items():
            for back in backs:
                dark, light = sorted((_luminance(color[front]), _luminance(color[back])))
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (front, back)
    assert "opacity" not in text


def test_long_names_and_advice_wrap_and_folded_vms_are_printed() -> None:
    """Headless Chromium showed each: advice cut off at 1280 px, and a printed page without the folded VMs."""
    (style,) = parsed(html_page(shop_content())).all("style")

    assert not re.search(r"td b\{[^}]*nowrap", style.text)
    assert ".stack td+td{overflow-wrap:anywhere" in style.text
    assert re.search(
        r"@media print\{.*details::details-content\{content-visibility:visible", style.text
    )


def test_page_of_ten_thousand_vms_is_below_one_megabyte() -> None:
    """500 nodes with 20 VMs each, two of which violate a rule: the browser finds each VM on its node."""
    result = shop_placement()
    violated = result["instances"][0]
    good, empty = result["satisfied_instances"][0], result["nodes"][0]
    names = [f"virtual-machine-{number:05}" for number in range(10_000)]
    nodes = [f"worker-{number % 500}.prod.example.com" for number in range(10_000)]
    result["instances"], result["satisfied_instances"], result["nodes"] = [], [], []
    for number, (name, node) in enumerate(zip(names, nodes, strict=True)):
        if number < 500:
            domains = {"zone": "abc"[number % 3], "node": node}
            result["nodes"].append({**empty, "name": node, "domains": domains})
        if number < 1000:
            workload = {**violated["workload"], "name": name}
            instance = {**violated["instance"], "name": name}
            entry = {**violated, "workload": workload, "instance": instance, "node": node}
            result["instances"].append({**entry, "uid": name})
        else:
            entry = {**good, "name": name, "instance": name, "uid": name, "node": node}
            result["satisfied_instances"].append(entry)
    counts = {"instances": 10_000, "satisfied": 9_000, "violated": 1_000, "misplaced": 1_000}
    result["summary"] |= {**counts, "not_enforced": 0, "pending": 0, "down": 0}

    started = time.process_time()
    text = html_page(read_content(result, time=TIME))
    taken = time.process_time() - started

    assert len(text.encode()) < 1_000_000
    assert all(name in text for name in names)
    assert taken < 10 * model_of_a_thousand_vms(), "the page at most doubles the time of verify"


def model_of_a_thousand_vms() -> float:
    """The processor time of the least that verify does: it makes values of what the API server lists, before it judges
    them. The quickest of three, in seconds."""
    made = Cluster("abc")
    for number in range(100):
        machine(made, f"vm-{number}", "n1", {})
    seconds = []
    for _time in range(3):
        started = time.process_time()
        for _hundred in range(10):
            made.snapshot()
        seconds.append(time.process_time() - started)
    return min(seconds)
