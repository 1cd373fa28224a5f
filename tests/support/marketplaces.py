"""Marketplaces made by tests: trees of files, and git repositories of them on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smcp_runtime import fixtures

from .tree import ROOT

HARBOUR, GUILD = (ROOT / "fixtures" / "marketplaces" / name for name in ("harbour", "guild"))
IDENTITY = ("-c", "user.name=harbour", "-c", "user.email=works@example.org", "-c", "commit.gpgsign=false")
Files = Mapping[str, Any]


def write(root: Path, files: Files) -> Path:
    """Writes files by relative path: text as it stands, anything else as JSON; `None` deletes."""
    for name, content in files.items():
        path = root / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return root


def skill(name: str, description: str = "Does something. Use it for something.") -> str:
    """A SKILL.md."""
    return f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n"


def stdio(name: str, *flags: str, bundle_id: str | None = None, tools: str = "echo", **more: Any) -> dict[str, Any]:
    """A bundled server: the bare stdio server under this name."""
    command, *args = fixtures.light_stdio("--tools", tools, *flags)
    entry = {
        "name": name,
        "type": "stdio",
        "server_parameters": {"command": command, "args": args},
        "default_tool_meta": {"auto_apply": True},
        **more,
    }
    return entry if bundle_id is None else {**entry, "bundle_id": bundle_id}


def plugin(name: str, *servers: Mapping[str, Any], skills: tuple[str, ...] = ("work",), inputs: Any = None) -> Files:
    """The files of a plugin `plugins/<name>` of a catalog."""
    root = f"plugins/{name}"
    files: dict[str, Any] = {f"{root}/.tfrobot-plugin/plugin.json": {"name": name, "version": "1.0.0"}}
    files |= {f"{root}/skills/{one}/SKILL.md": skill(one) for one in skills}
    files |= {f"{root}/mcp-servers/{server['name']}.json": server for server in servers}
    if inputs is not None:
        files[f"{root}/mcp-servers/inputs.json"] = inputs
    return files


def catalog(name: str, *plugins: str, **entries: Mapping[str, Any]) -> Files:
    """The manifest of a catalog: plugins by bare name, and `entries` as they are."""
    listed = [{"name": one, "source": one} for one in plugins]
    listed += [{"name": one, **entry} for one, entry in entries.items()]
    return {".tfrobot-plugin/marketplace.json": {"name": name, "owner": {"name": "tests"}, "plugins": listed}}


class Repository:
    """A git repository with a work tree, fetched by its `file://` url."""

    def __init__(self, root: Path, *files: Files) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit(*files)

    @property
    def url(self) -> str:
        """Where it is fetched from."""
        return f"file://{self.root}"

    def commit(self, *files: Files) -> str:
        """Commits changes; the new commit."""
        for one in files:
            write(self.root, one)
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        """Runs git in it; what it printed."""
        done = subprocess.run(
            ["git", *IDENTITY, *words], cwd=self.root, check=True, capture_output=True, text=True, timeout=30
        )
        return done.stdout.strip()


def harbour(root: Path) -> Repository:
    """The fixture marketplace as a repository; its servers run under this interpreter."""
    shutil.copytree(HARBOUR, root)
    server = root / "plugins/audit/mcp-servers/audit-store.json"
    entry = json.loads(server.read_text())
    command, *args = fixtures.light_stdio("--tools", "echo")
    entry["server_parameters"] |= {"command": command, "args": args}
    server.write_text(json.dumps(entry))
    return Repository(root)


def fleet(root: Path, count: int = 50, servers: int = 2, skills: int = 6) -> Repository:
    """A marketplace of many plugins, each with disabled servers and skills."""
    names = [f"ship-{number:02d}" for number in range(count)]
    files: dict[str, Any] = dict(catalog("fleet", *names))
    for name in names:
        bundled = [stdio(f"{name}-{one}", disabled=True) for one in range(servers)]
        files |= plugin(name, *bundled, skills=tuple(f"work-{one}" for one in range(skills)))
    return Repository(root, files)
