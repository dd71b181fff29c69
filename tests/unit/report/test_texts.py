# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Markdown, JUnit and Prometheus metrics have the numbers of the results, and hostile texts stay text."""

from __future__ import annotations

import re
import typing as t
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from ansible_collections.virt.placement.plugins.plugin_utils.report import words
from ansible_collections.virt.placement.plugins.plugin_utils.report.content import (
    Content,
)
from ansible_collections.virt.placement.plugins.plugin_utils.report.junit import junit_xml
from ansible_collections.virt.placement.plugins.plugin_utils.report.markdown import (
    code,
    markdown_text,
)
from ansible_collections.virt.placement.plugins.plugin_utils.report.metrics import prometheus_text
from ansible_collections.virt.placement.plugins.plugin_utils.report.read_content import read_content
from tests.support.cluster import apart, cluster, machine

from .results import (
    FINE,
    RULE,
    TIME,
    move,
    placement_of,
    rollout_of,
    shop_content,
    shop_drill,
    shop_placement,
)
from .test_page import ENUMERATED, HOSTILE, with_texts

FAIL_ON = ("violated", "pending", "unknown", "constraint_removed", "down")
LINE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?\d+)')


def samples(text: str) -> dict[tuple[str, ...], int]:
    """Name and values of labels, without the cluster, to the value. Each line is one that Prometheus reads."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            match = LINE.fullmatch(line)
            assert match, line
            labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2])
            assert labels[0][0] == "cluster"
            key = (
                match[1].removeprefix("virt_placement_"),
                *(value for _name, value in labels[1:]),
            )
            assert key not in found
            found[key] = int(match[3])
    return found


def hostile() -> Content:
    return read_content(
        with_texts(shop_placement(), ENUMERATED),
        drill=with_texts(shop_drill(), ENUMERATED),
        rollout=with_texts(rollout_of(move("web-3", "n4", "n5")), ENUMERATED),
        cluster=f"prod{HOSTILE}",
        time=TIME,
    )


def test_metrics_have_the_numbers_of_the_summary() -> None:
    summary = shop_placement()["summary"]
    text = prometheus_text(shop_content())
    found = samples(text)

    counted: Counter[str] = Counter()
    for (name, *labels), value in found.items():
        if name == "instances":
            counted[labels[1]] += value
    assert dict(counted) == {
        verdict: summary[verdict]
        for verdict in (
            "violated",
            "pending",
            "unknown",
            "preference_not_met",
            "not_enforced",
            "satisfied",
        )
    }
    for name in ("misplaced", "constraint_removed", "down", "risks"):
        assert found[name,] == summary[name]
    assert found["rule_moves_needed", RULE] == 1
    assert found["rule_violating_instances", RULE] == 2
    assert found["drill_without_node", "zone", "b"] == 1
    assert found["drill_without_node", "zone", "a"] == 0
    assert found["findings", "no_node_has_key", "error"] == 1
    assert found["report_timestamp_seconds",] == 1795577400
    assert text.endswith("\n")
    assert Counter(re.findall(r"^# HELP (\w+)", text, re.M)).most_common(1)[0][1] == 1


def test_list_that_could_not_be_read_counts_as_unknown_in_no_namespace() -> None:
    result = shop_placement()
    result["permission_gaps"] = [
        {"resource": "pods", "namespace": "", "verb": "list", "reason": "forbidden"}
    ]
    result["summary"]["unknown"] = 1
    content = shop_content(placement=result)
    found = samples(prometheus_text(content))

    assert found["instances", "", "unknown"] == 1
    assert found["unread_lists",] == 1
    failed = ET.fromstring(junit_xml(content, FAIL_ON)).findall(
        "testsuite[@name='cluster']//failure"
    )
    assert [x.get("message") for x in failed] == ["cannot list pods: forbidden"]
    passed = ET.fromstring(junit_xml(content, ["violated"])).find("testsuite[@name='cluster']")
    assert passed is not None and (passed.get("failures"), passed.get("skipped")) == ("0", "1")


def test_rule_that_cannot_be_satisfied_has_no_number_of_moves() -> None:
    result = shop_placement()
    result["summary"]["violated_rules"][0] |= {"moves_needed": None, "moves_counted": True}
    found = samples(prometheus_text(shop_content(placement=result)))

    assert found["rule_cannot_be_satisfied", RULE] == 1
    assert ("rule_moves_needed", RULE) not in found


def test_failure_whose_forecast_is_unknown_has_no_number_of_instances() -> None:
    drill = shop_drill()
    (zone,) = [x for x in drill["domains"] if x["domain"] == "b"]
    zone |= {"forecast": "unknown", "min_unschedulable": 0, "not_recreated": []}
    found = samples(prometheus_text(shop_content(drill=drill)))

    assert ("drill_without_node", "zone", "b") not in found
    assert found["drill_without_node", "zone", "a"] == 0
    zone["min_unschedulable"] = 1
    found = samples(prometheus_text(shop_content(drill=drill)))
    assert found["drill_without_node", "zone", "b"] == 1


def test_hostile_texts_stay_in_the_labels_of_metrics() -> None:
    assert len(samples(prometheus_text(hostile()))) == len(samples(prometheus_text(shop_content())))


@pytest.mark.parametrize(
    ("fail_on", "failed"),
    [
        (FAIL_ON, {"web-2", "web-3", "gpu", "tape"}),
        (("violated",), {"web-2", "web-3"}),
        (("not_enforced",), {"late"}),
        ((), set()),
    ],
)
def test_junit_fails_for_what_fails_the_role(fail_on: tuple[str, ...], failed: set[str]) -> None:
    root = ET.fromstring(junit_xml(shop_content(), fail_on))
    cases = root.findall("testsuite/testcase")

    names = {str(case.get("classname")) for case in cases if case.find("failure") is not None}
    assert names == {f"shop.{name}" for name in failed}
    assert (root.get("tests"), root.get("failures")) == (str(len(cases)), str(len(failed)))
    keys = [(case.get("classname"), case.get("name")) for case in cases]
    assert len(set(keys)) == len(keys)
    assert len({case.get("classname") for case in cases}) == 20


def test_error_findings_fail_where_they_fail_the_role() -> None:
    root = ET.fromstring(junit_xml(shop_content(), ["error_finding"]))
    (case,) = root.findall("testsuite[@name='cluster']/testcase")

    assert (case.get("name"), root.get("failures")) == ("finding no_node_has_key", "1")
    failure = case.find("failure")
    assert failure is not None and "Label the nodes first, or correct the key." in str(failure.text)


def test_junit_failure_has_its_reason_as_text_and_message() -> None:
    root = ET.fromstring(junit_xml(shop_content(), FAIL_ON))
    (failure,) = root.findall("testsuite/testcase[@classname='shop.web-2']/failure")

    assert failure.get("type") == "violated"
    assert failure.text == failure.get("message")
    assert str(failure.text).startswith(
        "on n3: VirtualMachineInstance shop/web-3 is in the same zone"
    )


def test_hostile_texts_stay_in_the_attributes_of_junit() -> None:
    root = ET.fromstring(junit_xml(hostile(), FAIL_ON))

    assert {element.tag for element in root.iter()} == {
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
        "system-out",
    }
    assert root.get("name") == f"placement of prod{HOSTILE}"


def test_characters_that_xml_forbids_do_not_break_junit() -> None:
    """A message of an object may color a terminal, and a parser refuses the whole file for it."""
    result: dict[str, t.Any] = shop_placement()
    result["instances"][0]["rules"][0]["reason"] = "quota \x1b[31m of\ta\x00\ufffe\ud800 team 😀"
    root = ET.fromstring(junit_xml(shop_content(placement=result), FAIL_ON).encode())

    texts = [str(failure.text) for failure in root.iter("failure")]
    assert [text for text in texts if "quota ?[31m of\ta??? team 😀" in text]


def tables(text: str) -> dict[str, list[list[str]]]:
    """Heading to the rows of its tables."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| "):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            found.setdefault(heading, []).append([cell.strip() for cell in cells])
    return found


def test_markdown_has_the_numbers_of_the_summary() -> None:
    summary = shop_placement()["summary"]
    found = tables(markdown_text(shop_content()))

    states = {row[0].split(maxsplit=1)[1]: int(row[1]) for row in found["Placement of `prod`"][2:]}
    assert states == {state: summary[state.replace(" ", "_")] for state in states}
    assert [row[1] for row in found["Problems"][2:]] == [
        "`shop/web-2`",
        "`shop/web-3`",
        "`shop/gpu`",
        "`shop/late`",
        "`shop/tape`",
    ]
    assert found["Rules"][2][:6] == [f"`{RULE}`", "✖ violated", "1 move", "1", "2 → 1", "0 → 1"]
    assert [f"`{FINE}`", "✓ satisfied"] in [row[:2] for row in found["Rules"][2:]]
    assert len(found["Rules"]) - 2 == len(shop_content().rules)
    assert len(found["Findings"]) - 2 == len(shop_placement()["findings"])
    assert len(found["If a zone or a node fails"]) - 2 == 2


def test_satisfied_rule_that_keeps_vms_on_one_node_is_in_the_table_of_rules() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", tier="db")
    app = made.vm("app")
    near = apart("kubernetes.io/hostname", tier="db")
    made.write(app, "together", (TermLocation.AFFINITY, near))
    made.start(app, "n1")
    content = read_content(placement_of(made), cluster="prod", time=TIME)
    (row,) = tables(markdown_text(content))["Rules"][2:]
    assert row[:2] == ["`shop/default/together`", "✓ satisfied"]


def test_hostile_texts_stay_in_the_code_spans_of_markdown() -> None:
    text = markdown_text(hostile())
    plain = re.sub(r"^\* |`[^`\n]*`", "", text, flags=re.M)

    assert plain.count("`") == 0
    assert re.findall(r"(?<!\\)[<>\[\]@*_]", plain.replace("**", "")) == [], plain
    rows = tables(text)
    assert {heading: len(table) for heading, table in rows.items() if "prod" not in heading} == {
        heading: len(table)
        for heading, table in tables(markdown_text(shop_content())).items()
        if "prod" not in heading
    }


@given(st.text(st.sampled_from("\\|`a@[] \n<"), max_size=12))
def test_table_has_a_cell_for_each_text_whatever_is_in_it(text: str) -> None:
    """As cmark-gfm finds the cells of a row: a backslash takes the character after it along."""
    row = f" {code(text)} | {code('b')} "
    cells = re.findall(r"(?:\\[\x21-\x7e]|[^|\\]|\\)+", row)
    assert len(cells) == 2, (row, cells)
    assert cells[1] == " `b` "
    assert cells[0].count("`") in (0, 2)


@pytest.mark.parametrize(
    "word",
    [
        "@all",
        "#123",
        "GH-123",
        "www.evil.com",
        "https://evil.com",
        "a@b.c",
        "!1",
        "[x](y)",
        "<b>",
        "_x_",
        "~l",
    ],
)
def test_word_that_could_be_a_link_or_a_mention_is_text(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An escaped @ is a mention all the same, and www. a link."""
    monkeypatch.setattr(
        words, "sentence", lambda _content: f"6 of 7 VMs: no node, if {word} fails."
    )
    head = markdown_text(shop_content()).splitlines()[2]
    assert head == f"**6 of 7 VMs: no node, if `{word}` fails.**"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a`b", "`a'b`"),
        ("a|b", "`a\\|b`"),
        ("a\\|b", "`a\\\\\\|b`"),
        ("a\\\\|b", "`a\\\\\\|b`"),
        ("a\nb", "`a b`"),
        ("", ""),
        ("\x1b[2J", "`?[2J`"),
    ],
)
def test_code_span_cannot_be_left(text: str, span: str) -> None:
    assert code(text) == span


def test_no_unknown_state_is_reported_as_passed() -> None:
    result: dict[str, t.Any] = shop_placement()
    result["instances"][0] |= {"verdict": "unknown"}
    result["instances"][0]["rules"][0] |= {"verdict": "unknown", "reason": "cannot list pods"}
    result["summary"] |= {"unknown": 1, "violated": 1}
    root = ET.fromstring(junit_xml(shop_content(placement=result), ()))

    (skipped,) = root.findall("testsuite/testcase/skipped")
    assert str(skipped.get("message")).startswith("on n3: cannot list pods")
    assert root.get("skipped") == "1"
