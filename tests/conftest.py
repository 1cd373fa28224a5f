"""Fixtures of all tests: the event loop, peers in processes of their own, and what the marked tests need."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support import environments
from support.peers import Peers

NEEDS = {"interop": (environments.interop_python,), "real": (environments.real_bin, environments.node_prefix)}
"""What tests with a marker need. Never a reason to skip: without it they fail with the installer's words."""

# Generated tests are bounded by their number of examples; how long one takes depends on who else uses the machine.
settings.register_profile("repository", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repository")


@pytest.fixture(scope="session", autouse=True)
def state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Computers keep records of their processes; those of the tests do not belong to whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def anyio_backend() -> str:
    """asyncio, unless a module overrides this fixture to run on trio too."""
    return "asyncio"


@pytest.fixture
def peers() -> Iterator[Peers]:
    """Starts processes that are gone, with all their descendants, when the test ends."""
    with Peers() as started:
        yield started


@pytest.fixture(scope="session")
def official_python() -> Path:
    """Interpreter that has the official SDK installed."""
    return environments.interop_python()


@pytest.fixture(scope="session")
def real_bin() -> Path:
    """Directory with the commands `mcp-server-time` and `mcp-server-git`."""
    return environments.real_bin()


@pytest.fixture(scope="session")
def node_prefix() -> Path:
    """npm prefix; its `node_modules/.bin` has `mcp-server-everything` and `mcp-server-filesystem`."""
    return environments.node_prefix()


@pytest.fixture(scope="session")
def real_environment(real_bin: Path, node_prefix: Path) -> dict[str, str]:
    """Environment variables with all of these commands, and what they need, on `PATH`."""
    return environments.real_environment()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything under tests/interop and tests/real carries the marker of its folder."""
    for item in items:
        for marker in NEEDS:
            if Path(__file__).with_name(marker) in item.path.parents:
                item.add_marker(marker)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Makes environments before the first test, where no test's own time limit runs."""
    if session.config.option.collectonly:
        return
    for marker, makers in NEEDS.items():
        if any(item.get_closest_marker(marker) for item in session.items):
            for make in makers:
                # The fixture tries again, and its failure is then that of the tests that need it.
                with contextlib.suppress(RuntimeError, OSError, subprocess.SubprocessError):
                    make()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows what tests noted with `record_property("note", …)`: what this machine let them do, what they measured."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    notes = [value for report in reports for name, value in getattr(report, "user_properties", ()) if name == "note"]
    if notes:
        terminalreporter.section("notes")
        for note in dict.fromkeys(notes):
            terminalreporter.line(str(note))
