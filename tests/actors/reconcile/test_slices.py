"""What an answering actor is told of a server: whether the machine it runs on is this one."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.commits.slices import resource_slice, tool_slice
from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.policies import Placement, ServerPolicies
from smcp_runtime.actors.reconcile.config.server_entry import read_entry
from smcp_runtime.actors.reconcile.running.server_facts import ServerFacts
from smcp_runtime.actors.reconcile.server_set import SetEntry
from smcp_runtime.wire.messages.mcp import CallLimits

spec = pytest.mark.spec


def is_local(placement: Placement | None = None, **raw: Any) -> bool:
    entry = read_entry({"name": "s", **raw}, "e", Findings())
    assert entry is not None
    known = {} if placement is None else {entry.bundle_id: ServerPolicies(placement=placement)}
    (part,) = resource_slice({entry.bundle_id: SetEntry(entry, "embed", "e")}, ServerFacts(), [entry.bundle_id], known)
    return part.local


@spec("C-SKILL-27", "C-SEC-15")
class TestIsLocal:
    """Only a server on this machine may name directories and archives of it."""

    @pytest.mark.parametrize("placement", [None, "inline", "process"])
    def test_a_process_of_this_machine_and_a_url_of_its_loopback_are(self, placement: Placement | None) -> None:
        assert is_local(placement, command="c")
        assert is_local(placement, url="http://127.0.0.1:1/mcp")
        assert is_local(placement, url="http://[::1]:1/mcp")
        assert is_local(placement, url="http://localhost/mcp")

    @pytest.mark.parametrize("url", ["http://tools.example/mcp", "http://localhost.example/mcp", "http://10.0.0.1/mcp"])
    def test_a_url_of_another_machine_is_not(self, url: str) -> None:
        assert not is_local(url=url)

    @pytest.mark.parametrize("url", ["${env:URL}", "http://${input:host}/mcp"])
    def test_a_url_whose_host_is_not_written_down_is_not(self, url: str) -> None:
        assert not is_local(url=url)

    def test_nothing_that_a_worker_elsewhere_hosts_is(self) -> None:
        assert not is_local("external", command="c")
        assert not is_local("external", url="http://127.0.0.1:1/mcp")


@spec("F-68")
def test_a_lazy_server_is_asked_for_tools_alone() -> None:
    entry = read_entry({"name": "s", "command": "c"}, "e", Findings())
    assert entry is not None
    servers, lazy = {"s": SetEntry(entry, "embed", "e")}, {"s": ServerPolicies(limits=CallLimits(idle_stop=300.0))}
    assert resource_slice(servers, ServerFacts(), ["s"], lazy) == ()
    (tools,) = tool_slice(servers, ServerFacts(), lazy)
    assert tools.policy.lazy
