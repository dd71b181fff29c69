# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as JUnit XML, which CI servers show: a suite for each namespace, a case for each instance and rule. Pure.

GitLab shows the text of a failure, Jenkins its message, and GitLab wants class name and name together to be unique.
"""

from __future__ import annotations

import re
import typing as t
import xml.etree.ElementTree as ET

from ...module_utils.kinds.registry import has_vmis
from . import words
from .content import AppliedRule, Content, ReportedInstance

CLUSTER = "cluster"
"""The suite of what is about no namespace."""


_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What is no character of XML 1.0: a parser refuses the whole file for one, such as a color in a message."""


def junit_xml(content: Content, fail_on: t.Collection[str]) -> str:
    """`fail_on` are the verdicts, `down` and `constraint_removed`, that are failures."""
    suites: dict[str, list[ET.Element]] = {}
    for instance in sorted(content.instances, key=lambda x: (x.namespace, x.kind, x.name)):
        suites.setdefault(instance.namespace, []).extend(_cases(instance, fail_on))
    for gap in content.gaps:
        case = _case(CLUSTER, gap.partition(":")[0])
        _outcome(case, "unknown", gap, fail_on)
        suites.setdefault("", []).append(case)
    suites.setdefault("", []).extend(_findings(content, fail_on))
    root = ET.Element("testsuites", name=f"placement of {content.cluster}")
    for namespace, cases in sorted((name, cases) for name, cases in suites.items() if cases):
        suite = ET.SubElement(root, "testsuite", name=namespace or CLUSTER)
        suite.extend(cases)
        _count(suite, [suite])
    _count(root, list(root))
    ET.indent(root)
    text = _NOT_XML.sub("?", ET.tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _findings(content: Content, fail_on: t.Collection[str]) -> t.Iterator[ET.Element]:
    """A case for each name of a finding of the severity error, where such findings are failures."""
    texts: dict[str, list[str]] = {}
    for finding in content.findings:
        if finding.severity == "error" and "error_finding" in fail_on:
            text = f"{', '.join(finding.objects[:6])}: {finding.why} {finding.advice}"
            texts.setdefault(finding.name, []).append(text)
    for name, found in sorted(texts.items()):
        case = _case(CLUSTER, f"finding {name}")
        _outcome(case, "error_finding", "\n".join(found), fail_on)
        yield case


def _cases(instance: ReportedInstance, fail_on: t.Collection[str]) -> t.Iterator[ET.Element]:
    pod = "" if has_vmis(instance.kind) else f"{instance.kind}/"
    name = f"{instance.namespace}.{pod}{instance.name}"
    where = f"on {instance.node}" if instance.node else "without a node"
    if instance.down:
        case = _case(name, "node is Ready")
        _outcome(case, "down", f"{where}: {words.MEANING['down']}", fail_on)
        yield case
    by_rule: dict[str, list[AppliedRule]] = {}
    for rule in instance.rules:
        by_rule.setdefault(rule.rule, []).append(rule)
    for rule_name, rules in sorted(by_rule.items()) or [("", [])]:
        case = _case(name, rule_name or "other constraints")
        for rule in rules:
            if rule.constraint_removed:
                _outcome(case, "constraint_removed", f"{where}: {rule.reason}", fail_on)
            if rule.verdict != "satisfied":
                better = f"; better: {', '.join(rule.better_nodes)}" if rule.better_nodes else ""
                _outcome(case, rule.verdict, f"{where}: {rule.reason}{better}", fail_on)
        yield case


def _case(classname: str, name: str) -> ET.Element:
    return ET.Element("testcase", classname=classname, name=name)


def _outcome(case: ET.Element, state: str, text: str, fail_on: t.Collection[str]) -> None:
    """One failure a case at most. What is unknown did not pass, also where it is no failure."""
    if state in fail_on:
        failure = case.find("failure")
        if failure is None:
            failure = ET.Element("failure", type=state, message=text)
            case.insert(0, failure)
            failure.text = text
        else:
            failure.text = f"{failure.text}\n{state}: {text}"
    elif state == "unknown":
        if case.find("skipped") is None:
            ET.SubElement(case, "skipped", message=text)
    else:
        output = case.find("system-out")
        if output is None:
            output = ET.SubElement(case, "system-out")
            output.text = f"{state}: {text}"
        else:
            output.text = f"{output.text}\n{state}: {text}"


def _count(element: ET.Element, suites: t.Sequence[ET.Element]) -> None:
    cases = [case for suite in suites for case in suite.findall("testcase")]
    failed = [case for case in cases if case.find("failure") is not None]
    skipped = [
        case for case in cases if case.find("skipped") is not None and case.find("failure") is None
    ]
    element.set("tests", str(len(cases)))
    element.set("failures", str(len(failed)))
    element.set("errors", "0")
    element.set("skipped", str(len(skipped)))
