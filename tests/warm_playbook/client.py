# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a playbook in a fork of the server: client.py SOCKET [arguments of ansible-playbook]. Its standard streams,
folder and environment are those of the playbook. Where it is killed, the server kills the playbook. Its exit code is
120 where the server has given none."""

import json
import os
import socket
import sys

_, path, *arguments = sys.argv
request = {"folder": os.getcwd(), "arguments": arguments, "environment": dict(os.environ)}
with socket.socket(socket.AF_UNIX) as server:
    try:
        server.connect(path)
    except OSError as error:
        print(f"{path}: {error}", file=sys.stderr)
        sys.exit(120)
    socket.send_fds(server, [b"\n"], [0, 1, 2])
    server.sendall(json.dumps(request).encode() + b"\n")
    status = int(server.makefile().readline() or 120)
sys.exit(status if status >= 0 else 128 - status)
