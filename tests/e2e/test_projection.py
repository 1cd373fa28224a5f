"""What an Agent sees of a Computer, at every moment, through a real Server."""

from __future__ import annotations

import json

import anyio
import pytest

from smcp_runtime import fixtures
from smcp_runtime.agent import AsyncAgent
from smcp_runtime.wire.errors import PeerError
from support.stack import OFFICE, Stack, config, light, open_stack, options

pytestmark = pytest.mark.anyio


async def refusal(stack: Stack, bundle_id: str) -> PeerError:
    with pytest.raises(PeerError) as refused:
        await stack.agent.get_resources("desk", bundle_id)
    return refused.value


@pytest.mark.spec("T-PROJ-1", "R-PROJ-2", "W-CFG-2", "W-CFG-3", "W-CFG-4", "R-FIX-3", "DEC-19")
async def test_the_configuration_shows_placeholders_and_masks_everything_typed_into_it() -> None:
    environment = {"A2C_SMCP_api_token": "resolved-s3cret", "PATH": "/usr/bin:/bin"}
    entry = light("Billing (staging)", "--token", "${input:api_token}", bundle_id="billing")
    entry["server_parameters"]["env"] = {"TOKEN": "${input:api_token}", "KEY": "typed-s3cret", "EMPTY": ""}
    secret = {"type": "promptString", "id": "api_token", "description": "d", "password": True, "default": "d-s3cret"}
    remote = {
        "name": "remote",
        "type": "streamable",
        "server_parameters": {
            "url": "http://u:pw-s3cret@127.0.0.1:9/mcp?key=q-s3cret",
            "headers": {"Authorization": "Bearer h-s3cret"},
        },
    }
    async with open_stack(config(inputs=[secret]), runtime=options(env=environment)) as stack:
        assert (await stack.agent.get_config("desk")).servers == {}
        await stack.computer.mount(entry)
        await stack.computer.mount(remote)
        await stack.until_listed("billing__echo")
        shown = await stack.agent.get_config("desk")
        text = json.dumps([str(shown)])
        assert "s3cret" not in text
        assert set(shown.servers) == {"billing", "remote"}
        billing = shown.servers["billing"].server_parameters
        assert billing.args[-1] == "${input:api_token}"
        assert billing.env == {"TOKEN": "${input:api_token}", "KEY": "[REDACTED]", "EMPTY": billing.env["EMPTY"]}
        assert "s3cret" not in str(await stack.computer.diagnostics())


@pytest.mark.spec("T-PROJ-2", "R-PROJ-8", "W-META-2")
async def test_t_proj_2_a_forbidden_tool_is_neither_listed_nor_callable_and_metadata_is_a_json_string() -> None:
    async with open_stack(fixtures.config("forbidden")) as stack:
        (tool,) = (await stack.agent.get_tools("desk")).tools
        assert tool.name == "Guarded_store__safe_read"
        assert tool.meta is not None
        assert json.loads(tool.meta["a2c_tool_meta"])["tags"] == ["read"]
        assert (await stack.call("Guarded_store__dangerous_delete")).error_code == 4002
        assert await stack.text("Guarded_store__safe_read") == "nothing was changed"


@pytest.mark.spec("T-PROJ-3", "W-EXP-1", "F-46")
async def test_t_proj_3_one_tool_name_on_two_servers_gives_two_names_and_each_call_finds_its_server() -> None:
    async with open_stack(config(light("left", tools="pid"), light("right", tools="pid"))) as stack:
        await stack.until_listed("left__pid", "right__pid")
        left, right = await stack.text("left__pid"), await stack.text("right__pid")
        pids = {server.bundle_id: str(server.pid) for server in (await stack.computer.diagnostics()).servers}
        assert {"left": left, "right": right} == pids


@pytest.mark.spec("T-PROJ-4", "W-RES-1", "W-RES-2", "R-PROJ-9", "E-5")
async def test_t_proj_4_resources_come_page_by_page_and_their_absence_has_a_code() -> None:
    many = light("many", "--resources", "5", "--page-size", "2")
    async with open_stack(config(many, light("none"))) as stack:
        await stack.until_listed("many__echo", "none__echo")
        uris, cursor, pages = [], None, 0
        while True:
            page = await stack.agent.get_resources("desk", "many", cursor)
            pages += 1
            uris += [resource.uri for resource in page.resources]
            if not isinstance(page.next_cursor, str):
                break
            cursor = page.next_cursor
        assert (len(uris), len(set(uris)), pages) == (5, 5, 3)
        lacking = await refusal(stack, "none")
        assert (lacking.wire_code, lacking.payload["capability"]) == (4015, "resources")
        assert (await refusal(stack, "unknown")).wire_code == 4014
        await stack.computer.control("many", "stop")
        assert (await refusal(stack, "many")).wire_code == 4014


@pytest.mark.spec("W-CMP-4", "R-PROJ-3", "R-PROJ-6", "R-CORE-9", "F-09")
async def test_what_is_mounted_and_unmounted_is_told_and_seen_at_once() -> None:
    async with open_stack(fixtures.config("minimal")) as stack:
        notices = stack.agent.notifications()
        desk = stack.computer.name
        await stack.computer.mount(light("srv"))
        await stack.until_listed("srv__echo")
        await stack.hear(notices, "notify:update_tool_list")
        assert await stack.names() == ["srv__echo"]
        assert set((await stack.agent.get_config(desk)).servers) == {"srv"}
        await stack.computer.unmount("srv")
        assert await stack.names() == []
        assert (await stack.agent.get_config(desk)).servers == {}
        assert (await stack.call("srv__echo")).error_code == 4001


@pytest.mark.spec("R-PROJ-3", "DEC-4", "F-53")
async def test_a_tool_that_appears_during_a_call_is_announced_and_listed() -> None:
    async with open_stack(config(light("srv", tools="add_tool,remove_tool,echo"))) as stack:
        await stack.text("srv__add_tool", name="late")
        await stack.until_listed("srv__late")
        await stack.text("srv__remove_tool", name="late")
        await stack.until_listed("srv__echo", gone=["srv__late"])


@pytest.mark.spec("DEC-4", "DEC-37", "F-54", "F-56")
async def test_a_server_that_never_answers_delays_no_list_and_no_call() -> None:
    servers = (light("good"), light("mute", "--mute-initialize"))
    async with open_stack(config(*servers), runtime=options(start_wait_s=0.5)) as stack:
        await stack.until_listed("good__echo")
        with anyio.fail_after(1):
            assert await stack.names() == ["good__echo"]
            assert set((await stack.agent.get_config("desk")).servers) == {"good", "mute"}
            assert await stack.text("good__echo", text="x") == "x"


@pytest.mark.spec("DEC-5", "F-44")
async def test_the_list_is_the_same_bytes_whatever_the_order_of_starting() -> None:
    lists = []
    for delays in (("0", "0.2", "0.1"), ("0.2", "0", "0.1")):
        servers = [light(f"srv{n}", "--start-delay", delay, tools="echo,add") for n, delay in enumerate(delays)]
        async with open_stack(config(*servers)) as stack:
            await stack.until_listed(*(f"srv{n}__add" for n in range(3)))
            lists.append([(tool.name, str(tool)) for tool in (await stack.agent.get_tools("desk")).tools])
    assert lists[0] == lists[1]


@pytest.mark.spec("R-CORE-1", "W-ARCH-3", "W-ROOM-32")
async def test_two_computers_in_one_process_and_one_office_serve_side_by_side() -> None:
    from smcp_runtime.runtime import Computer  # noqa: PLC0415

    async with open_stack(config(light("srv", tools="echo,pid"))) as stack:
        other = Computer.from_config(config(light("srv", tools="echo,pid"), name="other"), options())
        notices = stack.agent.notifications()
        async with other:
            await other.connect(stack.server.url, office=OFFICE)
            pids = {await stack.text("srv__pid")}
            listed = await stack.agent.get_tools("other")
            assert [tool.name for tool in listed.tools] == ["srv__echo", "srv__pid"]
            pids.add((await stack.agent.tool_call("other", "srv__pid", timeout=10)).text)
            assert len(pids) == 2
            await other.mount(light("more"))
            with anyio.fail_after(5):
                async for notice in notices:
                    if notice.event == "notify:update_config":
                        assert notice.computer == "other"
                        break
        assert await stack.text("srv__echo", text="x") == "x"


@pytest.mark.spec("R-PROJ-7", "T-STOP-1", "T-CONN-5", "DEC-27")
async def test_t_conn_5_an_office_that_was_left_hears_nothing_and_the_next_one_gets_the_present_state() -> None:
    async with open_stack(fixtures.config("minimal")) as stack:
        await stack.computer.leave()
        notices = stack.agent.notifications()
        await stack.computer.mount(light("srv"))
        await stack.until_connected("srv")
        async with AsyncAgent(stack.server.url, name="elsewhere", office="attic") as elsewhere:
            heard = elsewhere.notifications()
            await stack.computer.join("attic")
            events = await stack.hear(heard, "notify:update_tool_list", "notify:update_config")
            assert [tool.name for tool in (await elsewhere.get_tools(stack.computer.name)).tools] == ["srv__echo"]
        assert events[0] == "notify:enter_office"
        assert events.count("notify:update_config") == 1
        assert [notice.event for notice in iter(notices.take, None)] == []
