"""Options that several commands share, and values that come from the environment or as JSON text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer


def server_url(url: str | None) -> str | None:
    """The URL of a Server as it was given.

    Raises:
        typer.BadParameter: No Server can be there.
    """
    from ..wire.errors import ConfigValidationError  # noqa: PLC0415 - heavier than all that `--help` needs
    from ..wire.handshake import request_url  # noqa: PLC0415

    if url is not None:
        try:
            request_url(url, "", "")
        except ConfigValidationError as error:
            raise typer.BadParameter(error.message) from None
    return url


Url = Annotated[
    str,
    typer.Option("--url", help="Where the Server is, http(s)://host[:port].", metavar="URL", callback=server_url),
]
Office = Annotated[str, typer.Option("--office", help="The office to join.", metavar="NAME")]
SocketioPath = Annotated[str, typer.Option("--socketio-path", help="Where Socket.IO is mounted.", metavar="PATH")]
AuthEnv = Annotated[
    str | None,
    typer.Option("--auth-env", help="Variable with a token, or with a JSON object to send as auth.", metavar="VAR"),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def auth_from(variable: str | None) -> dict[str, Any] | None:
    """The `auth` object in an environment variable: a JSON object as it stands, any other text as `token`.

    Credentials come from the environment only: everybody on the machine can read a command line.

    Raises:
        typer.BadParameter: The variable is not set.
    """
    if variable is None:
        return None
    value = secret_from(variable, "--auth-env")
    try:
        payload = json.loads(value)
    except ValueError:
        payload = None
    return payload if isinstance(payload, dict) else {"token": value}


def secret_from(variable: str, option: str) -> str:
    """The value of an environment variable that must be set.

    Raises:
        typer.BadParameter: It is not, or is empty.
    """
    value = os.environ.get(variable, "")
    if not value:
        raise typer.BadParameter(f"the environment variable {variable} is not set", param_hint=option)
    return value


def json_object_or_file(text: str) -> dict[str, Any]:
    """A JSON object written on the command line, or held by the file that is named after an `@`.

    Raises:
        typer.BadParameter: It is none, or there is no such file; does not repeat the text.
    """
    if not text.startswith("@"):
        return json_object(text, "JSON|@FILE")
    try:
        return json_object(Path(text[1:]).read_text(encoding="utf-8"), "JSON|@FILE")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{text[1:]} cannot be read: {type(error).__name__}") from None


def json_object(text: str, option: str) -> dict[str, Any]:
    """A JSON object written on the command line.

    Raises:
        typer.BadParameter: It is none; says where, and does not repeat the text.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"no JSON: {error}", param_hint=option) from None
    if not isinstance(value, dict):
        raise typer.BadParameter("a JSON object is expected", param_hint=option)
    return value
