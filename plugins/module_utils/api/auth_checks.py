# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse connection options that kubernetes.core would silently ignore; explain unusable ones.

kubernetes.core and the client silently ignore some options, and the task would then reach
another cluster than it names, or act as another identity there:

- `host` is used only together with credentials; without them the kubeconfig decides, since the
  client sets the kubeconfig's server again with each token (kubernetes.core `k8s.client`
  `_create_configuration`, client `kube_config` `_set_config`);
- with `host` and credentials no kubeconfig is read, so neither it nor `context` is used;
- without `host` a token of the kubeconfig, or of the pod that the task runs in, takes the place of
  `api_key` (the client's `refresh_api_key_hook`), and the API server prefers a client certificate;
- an empty value is ignored, and so is a missing file.

Such a task is refused here, before any request. Each check raises NoConfiguration.

`unusable_connection` says what to change where options, environment and kubeconfig lead to no server. It is
called only after the client failed: its messages name neither the option or variable nor the file.
The kubeconfig is chosen as kubernetes.core and the client do it: the option or its variable,
then the variable KUBECONFIG, then a file in the home folder (client `kube_config`,
`KUBE_CONFIG_DEFAULT_LOCATION`).
"""

from __future__ import annotations

import os
import re
import typing as t
import urllib.parse
from dataclasses import dataclass

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_MAP

from ..model.rendering import listed
from .errors import NoConfiguration, cut

Options = t.Mapping[str, t.Any]

ENVIRONMENT = "K8S_AUTH_"
_NEVER_EMPTY = ("kubeconfig", "context", "host", "api_key")
_FILES = ("ca_cert", "client_cert", "client_key")
_CREDENTIAL_OPTIONS = (("api_key",), ("username", "password"), ("client_cert", "client_key"))
_TRUE_NAMES = {option: name for name, option in AUTH_ARG_MAP.items()}
HIDDEN = "********"
_SHORTEST_SECRET = 6
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True)
class Given:
    """A value, and the option or variable that gives it."""

    value: t.Any
    by: str

    @property
    def in_task(self) -> bool:
        return not self.by.startswith(ENVIRONMENT)

    def outranks(self, other: Given) -> bool:
        """Whether this is an option and `other` a variable."""
        return self.in_task and not other.in_task


def check_before(options: Options) -> None:
    """What can be checked before a kubeconfig is read."""
    for name in _NEVER_EMPTY:
        if options.get(name) in ("", {}):
            raise NoConfiguration(f"{name}: must not be empty: omit it")
    for name in _FILES:
        if given := given_as(options, name):
            check_file(given.by, str(given.value))
    kubeconfig = given_as(options, "kubeconfig")
    if kubeconfig and isinstance(kubeconfig.value, str):
        paths = paths_of(kubeconfig.value)
        for path in [path for path in paths if os.path.exists(path)] or paths:
            check_file(kubeconfig.by, path)  # one of several files is enough, as it is for kubectl
    proxy = given_as(options, "proxy")
    if proxy and "://" not in str(proxy.value):
        raise NoConfiguration(f"{proxy.by}: has no scheme: begin it with http:// or https://")
    host = given_as(options, "host")
    if host and url_passwords(host.value):
        raise NoConfiguration(
            f"{host.by} has a password, which would be ignored: give username and password beside it"
        )
    if host and enough_without_kubeconfig(options):
        _check_ignored(host, kubeconfig, given_as(options, "context"))


def enough_without_kubeconfig(options: Options) -> bool:
    """A host and credentials for it, none of them empty: then no kubeconfig is read."""
    return any(
        all((given := given_as(options, name)) and given.value for name in ("host", *names))
        for names in _CREDENTIAL_OPTIONS
    )


def check_host(options: Options, host: str) -> None:
    """`host` is the URL of the session. It must equal the given one, if any."""
    given = given_as(options, "host")
    if given and _origin(str(given.value)) != _origin(host):
        raise NoConfiguration(
            f"{given.by} says {cut(str(given.value))}, and the rest of the configuration leads to"
            f" {cut(host)}: nothing was done; host is used only together with credentials, so give"
            " api_key, username and password, or client_cert and client_key as well, or leave out"
            " host"
        )


def check_token(options: Options, token: str, *, by_certificate: bool) -> None:
    """`token` is the one of the session. It must equal the given one, if any, and no certificate of the
    kubeconfig may take its place."""
    given = given_as(options, "api_key")
    kubeconfig_options = (given_as(options, name) for name in ("kubeconfig", "context"))
    if given is None or any(option and option.outranks(given) for option in kubeconfig_options):
        return
    if token != given.value or (by_certificate and not given_as(options, "client_cert")):
        raise NoConfiguration(
            f"{given.by} is given and would be ignored, since the rest of the configuration has"
            " credentials of its own, which take its place: nothing was done; give host beside"
            f" {given.by}, or leave out {given.by}"
        )


_HEADER = re.compile(r"[\t -~\x80-\xff]*")
_OPTION_OF_HEADER = {
    "Impersonate-User": "impersonate_user",
    "Impersonate-Group": "impersonate_groups",
}


def check_headers(headers: t.Iterable[tuple[str, str]]) -> None:
    """The HTTP client refuses such a value with a message that has it, which may be a token."""
    for name, value in headers:
        if not _HEADER.fullmatch(value):
            raise NoConfiguration(
                f"{_OPTION_OF_HEADER.get(name, 'the token')} has a character that no HTTP header can have, such as"
                " a line break at its end: remove it"
            )


def given_as(options: Options, name: str) -> Given | None:
    """As kubernetes.core looks for it: the option, then the variables of both its names."""
    if options.get(name) is not None:
        return Given(options[name], name)
    for alias in (name, _TRUE_NAMES[name]):
        variable = f"{ENVIRONMENT}{alias.upper()}"
        if os.environ.get(variable):
            return Given(os.environ[variable], variable)
    return None


def _check_ignored(host: Given, kubeconfig: Given | None, context: Given | None) -> None:
    """A kubeconfig in a variable may be for other tasks than one with the option `host`; a context may not."""
    ignored = []
    if kubeconfig and kubeconfig.outranks(host):
        ignored.append(kubeconfig)
    if context and not host.outranks(context):
        ignored.append(context)
    for given in ignored:
        raise NoConfiguration(
            f"{given.by} is given and would be ignored, since {host.by} ({cut(str(host.value))}) and"
            f" its credentials take its place: nothing was done; leave out {given.by} or {host.by}"
        )


def paths_of(text: str) -> tuple[str, ...]:
    """The files that a kubeconfig option or variable names."""
    return tuple(os.path.expanduser(path) for path in text.split(os.pathsep) if path)


def check_file(by: str, path: str) -> None:
    """Raises NoConfiguration unless there is a file that can be read."""
    if not os.path.exists(path):
        raise NoConfiguration(f"{by}: there is no file {path} where the task runs; correct {by}")
    if os.path.isdir(path):
        raise NoConfiguration(f"{by}: {path} is a folder; name the file in it")
    if not os.access(path, os.R_OK):
        raise NoConfiguration(f"{by}: the user of the task may not read {path}")


def _origin(url: str) -> tuple[str, str, int | None, str]:
    """What makes two URLs the same server."""
    try:
        parts = urllib.parse.urlsplit(url.rstrip("/"))
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return "", url, None, ""
    return parts.scheme.lower(), parts.hostname or "", port, parts.path


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


def unusable_connection(options: Options, error: str) -> str:
    """The message of `error`, an exception of the client. Raises NoConfiguration where a file cannot be read."""
    general = "no usable connection in the options, the K8S_AUTH_ variables or a kubeconfig"
    if enough_without_kubeconfig(options):
        return f"{general}: {cut(error)}"
    source = _source(options)
    if source.loaded is None and not source.there:
        return _nothing_there(options, source)
    for path in source.there:
        check_file(source.by, path)
    kubeconfigs = [source.loaded] if source.loaded is not None else []
    for path in source.there:
        content, fault = _read(path)
        if fault:
            return f"{source.by}: {path} {fault}; name a kubeconfig"
        kubeconfigs.append(content)
    return (
        _wrong_context(given_as(options, "context"), source, kubeconfigs)
        or f"{general}: {cut(_without_credentials(error, kubeconfigs))}"
    )


def _without_credentials(error: str, kubeconfigs: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """What a credential program prints when it fails, without its arguments and environment."""
    words = {word for content in kubeconfigs for word in _program_words(content)}
    for word in sorted(words, key=len, reverse=True):
        error = error.replace(word, HIDDEN)
    return error


def _program_words(kubeconfig: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Values of the arguments and variables of the credential programs. Short ones are no secrets, and
    the names of options (`--client-secret`) help to understand the error."""
    users = kubeconfig.get("users")
    for entry in users if isinstance(users, list) else ():
        user = entry.get("user") if isinstance(entry, dict) else None
        program = user.get("exec") if isinstance(user, dict) else None
        if not isinstance(program, dict):
            continue
        words = [str(word) for word in program.get("args") or () if word]
        words = [word.partition("=")[2] if word.startswith("-") else word for word in words]
        variables = program.get("env") or ()
        words += [str(x.get("value") or "") for x in variables if isinstance(x, dict)]
        yield from (word for word in words if len(word) >= _SHORTEST_SECRET)


def url_passwords(url: t.Any) -> tuple[str, ...]:
    """The password in a URL, as it is written there and decoded; nothing where there is none."""
    try:
        password = urllib.parse.urlsplit(str(url or "")).password
    except ValueError:
        return ()
    return (password, urllib.parse.unquote(password)) if password else ()


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
            f"{host.by} is used only together with credentials, and {looked}; give api_key,"
            " username and password, client_cert and client_key, or a kubeconfig"
        )
    correct = f"correct {_VARIABLE}, or give" if source.by == _VARIABLE else "give"
    return f"{looked}; {correct} kubeconfig, or host with api_key"


def _read(path: str) -> tuple[t.Mapping[str, t.Any], str]:
    """The content of the file, or what is wrong with it. The message quotes no content: there may be
    secrets in it."""
    from .yaml_text import InvalidYaml, PyYamlMissing, load_yaml

    try:
        with open(path, encoding="utf-8") as file:
            content = load_yaml(file)
    except OSError as error:
        return {}, f"cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        return {}, "is no text"
    except PyYamlMissing as error:
        return {}, f"cannot be read ({error})"
    except InvalidYaml as error:
        return {}, f"is not YAML (line {error.line})" if error.line else "is not YAML"
    if isinstance(content, dict):
        return content, ""
    content_type = {str: "text", list: "a list", type(None): "nothing"}.get(
        type(content), "a single value"
    )
    return {}, f"holds {content_type} where a map with clusters, users and contexts must be"


def _wrong_context(
    given: Given | None, source: _Source, kubeconfigs: t.Sequence[t.Mapping[str, t.Any]]
) -> str:
    """What there is to say of the context, if it is that which is wrong."""
    names = sorted({name for content in kubeconfigs for name in _contexts(content)})
    there = f"its contexts are: {listed(names, _SHOWN) or 'none'}"
    if given is not None:
        if given.value in names:
            return ""
        return f"{given.by}: there is no context {cut(str(given.value))} in {source}; {there}"
    current = [
        content["current-context"] for content in kubeconfigs if content.get("current-context")
    ]
    if not current:
        return f"{source} has no current-context; name one as context, {there}"
    if any(name in names for name in current):
        return ""
    return (
        f"current-context of {source} is {cut(str(current[-1]))}, which does not exist;"
        f" name one as context, {there}"
    )


def check_user(options: Options) -> None:
    """Where the configuration leads to no credentials: the user of the context must exist. The client ignores a
    missing one, and would ask as system:anonymous."""
    if enough_without_kubeconfig(options):
        return
    source = _source(options)
    contents = [source.loaded or {}, *(_read(path)[0] for path in source.there)]
    given = given_as(options, "context")
    current = [x["current-context"] for x in contents if x.get("current-context")]
    wanted = given.value if given else (current or [""])[0]
    users = {name for content in contents for name, _entry in _named(content, "users")}
    for content in contents:
        for name, entry in _named(content, "contexts"):
            user = (entry.get("context") or {}).get("user")
            if name == wanted and user and user not in users:
                raise NoConfiguration(
                    f"context {cut(name)} of {source} names the user {cut(str(user))}, which does not exist:"
                    " nothing was done; correct the user of the context, or name another one as context"
                )


def _contexts(kubeconfig: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    return (name for name, _entry in _named(kubeconfig, "contexts"))


def _named(
    kubeconfig: t.Mapping[str, t.Any], part: str
) -> t.Iterator[tuple[str, t.Mapping[str, t.Any]]]:
    """The entries of a list of the kubeconfig that have a name."""
    entries = kubeconfig.get(part)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            yield entry["name"], entry
