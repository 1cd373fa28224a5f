"""The desktop channel: `window://` resources of all servers, organised for the Agent."""

from .actor import DesktopActor, DesktopSettings

__all__ = ["DesktopActor", "DesktopSettings"]
