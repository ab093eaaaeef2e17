"""What the tests of sandboxes and environments share."""

from __future__ import annotations

import asyncio
import os
import time

import psutil

from clawrl.environments.sandbox import Sandbox


def alive(pids: list[int]) -> list[int]:
    """Those that still run."""
    found: list[int] = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


def pids_of(box: Sandbox) -> list[int]:
    """The host's numbers of all that runs in a sandbox now."""
    return [process.pid for process in box._process.processes()]


def run_by(uid: int | None) -> list[int]:
    """Processes of a sandbox's own user; as an ordinary user there is none to tell by."""
    if uid is None or uid == os.geteuid():
        return []
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if uid in process.uids():
                found.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


async def all_gone(pids: list[int], within_s: float = 5.0) -> bool:
    """True once none of them runs any more."""
    until = time.monotonic() + within_s
    while alive(pids):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.02)
    return True


async def only_the_shell(box: Sandbox, within_s: float = 5.0) -> bool:
    """True once process 1 and the shell are all that runs inside."""
    until = time.monotonic() + within_s
    while box.process_count() > 2:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.02)
    return True
