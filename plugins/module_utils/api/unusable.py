# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why options, environment and kubeconfig led to no server, in words that say what to change.

Asked only after the client failed: its messages name neither the option or variable nor the file.
Which kubeconfig counts is as kubernetes.core and the client have it: the option or its variable,
then the variable KUBECONFIG, then a file in the home folder (client `kube_config`,
`KUBE_CONFIG_DEFAULT_LOCATION`).
"""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass

from .errors import cut
from .given import Given, Options, check_file, enough_without_kubeconfig, given_as, paths_of
from .yaml_text import NoReader, NoYaml, load_yaml

_VARIABLE = "KUBECONFIG"
_CREDENTIALS = ("api_key", "username", "client_cert")
_SHOWN = 6
"""Contexts that a message names."""


@dataclass(frozen=True)
class _Source:
    """Where the kubeconfig comes from: `by` is the option or the variable. `paths` are the files
    as they are named, `loaded` what was given as a map."""

    by: str
    paths: tuple[str, ...] = ()
    loaded: t.Mapping[str, t.Any] | None = None

    @property
    def there(self) -> list[str]:
        return [path for path in self.paths if os.path.exists(path)]

    def __str__(self) -> str:
        return ", ".join(self.there) or self.by


def why_unusable(options: Options, error: str) -> str:
    """`error` is what the client said. Raises NoConfiguration where a file cannot be read."""
    general = "no usable connection in the options, the K8S_AUTH_ variables or a kubeconfig"
    if enough_without_kubeconfig(options):
        return f"{general}: {cut(error)}"
    source = _source(options)
    if source.loaded is None and not source.there:
        return _nothing_there(options, source)
    for path in source.there:
        check_file(source.by, path)
    found = [source.loaded] if source.loaded is not None else []
    for path in source.there:
        content, fault = _read(path)
        if fault:
            return f"{source.by}: {path} {fault}; name a kubeconfig"
        found.append(content)
    return _wrong_context(given_as(options, "context"), source, found) or f"{general}: {cut(error)}"


def _source(options: Options) -> _Source:
    given = given_as(options, "kubeconfig")
    if given is None:
        from kubernetes.config import kube_config

        by = _VARIABLE if _VARIABLE in os.environ else "no kubeconfig is given"
        return _Source(by, paths_of(kube_config.KUBE_CONFIG_DEFAULT_LOCATION))
    if isinstance(given.value, str):
        return _Source(given.by, paths_of(given.value))
    return _Source(given.by, loaded=given.value)


def _nothing_there(options: Options, source: _Source) -> str:
    """No kubeconfig that could be read: which one was looked for, and what else is missing."""
    names = " and no file ".join(source.paths)
    if source.by != _VARIABLE:
        looked = f"{source.by}, and there is no file {names}"
    elif names:
        looked = f"{source.by}: there is no file {names} where the task runs"
    else:
        looked = f"{source.by} is empty"
    for name in _CREDENTIALS:
        given = given_as(options, name)
        if given and not given_as(options, "host"):
            return f"host is missing beside {given.by} ({looked}); give host, or a kubeconfig"
    host = given_as(options, "host")
    if host and source.by != _VARIABLE:
        return (
            f"{host.by} counts with credentials beside it alone, and {looked}; give api_key,"
            " username and password, client_cert and client_key, or a kubeconfig"
        )
    correct = f"correct {_VARIABLE}, or give" if source.by == _VARIABLE else "give"
    return f"{looked}; {correct} kubeconfig, or host with api_key"


def _read(path: str) -> tuple[t.Mapping[str, t.Any], str]:
    """What is in the file, or what is wrong with it. Nothing of its content is told: there may be
    secrets in it."""
    try:
        with open(path, encoding="utf-8") as file:
            found = load_yaml(file)
    except OSError as error:
        return {}, f"cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        return {}, "is no text"
    except NoReader as error:
        return {}, f"cannot be read ({error})"
    except NoYaml as error:
        return {}, f"is no YAML (line {error.line})" if error.line else "is no YAML"
    if isinstance(found, dict):
        return found, ""
    seen = {str: "text", list: "a list", type(None): "nothing"}.get(type(found), "a single value")
    return {}, f"holds {seen} where a map with clusters, users and contexts must be"


def _wrong_context(
    given: Given | None, source: _Source, found: t.Sequence[t.Mapping[str, t.Any]]
) -> str:
    """What there is to say of the context, if it is that which is wrong."""
    names = sorted({name for each in found for name in _contexts(each)})
    some = ", ".join(names[:_SHOWN]) or "none"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"the contexts there are: {some}{more}"
    if given is not None:
        if given.value in names:
            return ""
        return f"{given.by}: there is no context {cut(str(given.value))} in {source}; {there}"
    current = [each["current-context"] for each in found if each.get("current-context")]
    if not current:
        return f"{source} has no current-context; name one as context, {there}"
    if any(name in names for name in current):
        return ""
    return (
        f"current-context of {source} is {cut(str(current[-1]))}, and there is none of that name;"
        f" name one as context, {there}"
    )


def _contexts(kubeconfig: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    listed = kubeconfig.get("contexts")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            yield each["name"]
