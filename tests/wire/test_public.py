"""What `smcp_runtime.wire` offers, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

from smcp_runtime import wire


def test_the_public_names_are_sorted_exist_and_are_all_there_is() -> None:
    def order(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    modules = {name for name, value in vars(wire).items() if type(value).__name__ == "module"}
    assert list(wire.__all__) == sorted(wire.__all__, key=order)
    offered = {name for name in vars(wire) if not name.startswith("_")} - modules - {"annotations"}
    assert offered == set(wire.__all__)


def test_importing_it_loads_neither_the_bus_nor_any_library_but_msgspec() -> None:
    script = """
import sys
before = set(sys.modules)
import smcp_runtime.wire
loaded = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(loaded), *(name for name in sys.modules if name.startswith(('smcp_runtime.bus', 'smcp_runtime.actors'))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert set(done.stdout.split()) <= {"msgspec", "smcp_runtime", "typing_extensions"}
