"""The calls of Windows that a job tree is made of (`job_tree.Kernel`), one method each; imported there only.

Processes are created the way the standard library's own asyncio does it, over pipes that its event loop can
wait for; what it has no words for, jobs and suspended threads, comes from kernel32.
"""

from __future__ import annotations

import _winapi
import ctypes
import os
import subprocess
import sys
from asyncio import windows_utils
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from .job_tree import Born

assert sys.platform == "win32"

HANDLE, BOOL, DWORD = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32
ACCOUNTING, EXTENDED_LIMIT = 1, 9
"""`JobObjectBasicAccountingInformation`, `JobObjectExtendedLimitInformation`."""
CTRL_BREAK = 1
FAILED = 0xFFFFFFFF
KILLED = 1
"""Exit status of what we end."""


class BasicLimits(ctypes.Structure):
    _fields_ = [
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", DWORD),
        ("least_memory", ctypes.c_size_t),
        ("most_memory", ctypes.c_size_t),
        ("most_processes", DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority", DWORD),
        ("scheduling", DWORD),
    ]


class ExtendedLimits(ctypes.Structure):
    _fields_ = [
        ("basic", BasicLimits),
        ("transfers", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    ]


class Accounting(ctypes.Structure):
    _fields_ = [
        ("times", ctypes.c_int64 * 4),
        ("page_faults", DWORD),
        ("ever", DWORD),
        ("active", DWORD),
        ("terminated", DWORD),
    ]


def _call(name: str, result: Any, *arguments: Any) -> Any:
    """A function of kernel32 that raises `OSError` where it returns nothing."""

    def check(returned: Any, *_: object) -> Any:
        if not returned:
            raise ctypes.WinError(ctypes.get_last_error())
        return returned

    function = getattr(ctypes.WinDLL("kernel32", use_last_error=True), name)
    function.restype, function.argtypes, function.errcheck = result, arguments, check
    return function


class WindowsKernel:
    """The real ones. Handles are inherited by nobody, so that the job is ours alone."""

    def __init__(self) -> None:
        self._create_job = _call("CreateJobObjectW", HANDLE, ctypes.c_void_p, ctypes.c_wchar_p)
        self._limit = _call("SetInformationJobObject", BOOL, HANDLE, BOOL, ctypes.c_void_p, DWORD)
        self._query = _call("QueryInformationJobObject", BOOL, HANDLE, BOOL, ctypes.c_void_p, DWORD, ctypes.c_void_p)
        self._assign = _call("AssignProcessToJobObject", BOOL, HANDLE, HANDLE)
        self._terminate_job = _call("TerminateJobObject", BOOL, HANDLE, DWORD)
        self._resume = _call("ResumeThread", DWORD, HANDLE)
        # os.kill would go on to terminate the process where nobody can be asked.
        self._send = _call("GenerateConsoleCtrlEvent", BOOL, DWORD, DWORD)

    def create_job(self) -> int:
        return int(self._create_job(None, None))

    def limit_job(self, job: int, limits: int) -> None:
        wanted = ExtendedLimits(basic=BasicLimits(flags=limits))
        self._limit(job, EXTENDED_LIMIT, ctypes.byref(wanted), ctypes.sizeof(wanted))

    def create_process(
        self, program: str, line: str, environment: Mapping[str, str], directory: str | None, flags: int
    ) -> Born:
        with ExitStack() as theirs, ExitStack() as ours:

            def give(handle: int) -> int:
                theirs.callback(_winapi.CloseHandle, handle)
                os.set_handle_inheritable(handle, True)
                return handle

            def keep(handle: int) -> windows_utils.PipeHandle:
                return ours.enter_context(windows_utils.PipeHandle(handle))

            # Ours is duplex, for only reading it tells when the server closes its end.
            read_in, write_in = windows_utils.pipe(overlapped=(False, True), duplex=True)
            stdin, given_in = keep(write_in), give(read_in)
            read_out, write_out = windows_utils.pipe(overlapped=(True, False))
            stdout, given_out = keep(read_out), give(write_out)
            read_err, write_err = windows_utils.pipe(overlapped=(True, False))
            stderr, given_err = keep(read_err), give(write_err)
            start = subprocess.STARTUPINFO(
                dwFlags=subprocess.STARTF_USESTDHANDLES,
                hStdInput=given_in,
                hStdOutput=given_out,
                hStdError=given_err,
                lpAttributeList={"handle_list": [given_in, given_out, given_err]},
            )
            process, thread, pid, _ = _winapi.CreateProcess(
                program, line, None, None, True, flags, dict(environment), directory, start
            )
            ours.pop_all()
        return Born(process, thread, pid, stdin, stdout, stderr)

    def assign(self, job: int, process: int) -> None:
        self._assign(job, process)

    def resume(self, thread: int) -> None:
        if self._resume(thread) == FAILED:
            raise ctypes.WinError(ctypes.get_last_error())

    def send_break(self, group: int) -> None:
        self._send(CTRL_BREAK, group)

    def members(self, job: int) -> int:
        found = Accounting()
        self._query(job, ACCOUNTING, ctypes.byref(found), ctypes.sizeof(found), None)
        return int(found.active)

    def terminate_job(self, job: int) -> None:
        self._terminate_job(job, KILLED)

    def terminate_process(self, process: int) -> None:
        _winapi.TerminateProcess(process, KILLED)

    def wait(self, process: int) -> int:
        _winapi.WaitForSingleObject(process, _winapi.INFINITE)
        return _winapi.GetExitCodeProcess(process)

    def close(self, handle: int) -> None:
        _winapi.CloseHandle(handle)
