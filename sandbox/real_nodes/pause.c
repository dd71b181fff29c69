/* Copyright (c) 2026, virt.placement contributors
 * SPDX-License-Identifier: GPL-3.0-or-later
 * The first process of a pod: holds the pod's namespaces, and takes the exit codes of orphans. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void take_orphans(int number) { while (waitpid(-1, 0, WNOHANG) > 0); }
static void end(int number) { _exit(0); }

int main(void) {
    signal(SIGCHLD, take_orphans);
    signal(SIGINT, end);
    signal(SIGTERM, end);
    for (;;)
        pause();
}
