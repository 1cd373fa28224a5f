"""`smcp server`: one signalling Server until it is told to stop."""

from __future__ import annotations

import ipaddress
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from ..wire.protocol import SOCKETIO_PATH
from .exit_status import SUCCESS
from .options import SocketioPath, secret_from
from .output import Output


def server(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = 8000,
    token_env: Annotated[
        str | None, typer.Option("--token-env", help="Variable with the token peers must show.", metavar="VAR")
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Let everybody in. Without a token, the default on loopback only.")
    ] = False,
    socketio_path: SocketioPath = SOCKETIO_PATH,
    tls_certificate: Annotated[
        str | None, typer.Option("--tls-certificate", help="Serve TLS with this certificate chain.", metavar="FILE")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", help="Its private key, if the file has none.", metavar="FILE")
    ] = None,
) -> None:
    """Run a signalling Server. Prints one line when it listens; SIGINT or SIGTERM ends it cleanly."""
    output = Output()
    token = None if token_env is None else secret_from(token_env, "--token-env")
    if token is None and not anonymous and not _is_loopback(host):
        # W-AUTH-10: nobody gets in by omission where others can reach it.
        raise typer.BadParameter(f"listening on {host} needs --token-env or --anonymous", param_hint="--host")
    if tls_key is not None and tls_certificate is None:
        raise typer.BadParameter("a key without a certificate", param_hint="--tls-key")

    async def work() -> int:
        # Heavier than all that `--help` needs.
        from ..server.app import serve, tls_context  # noqa: PLC0415
        from ..server.auth import ANONYMOUS, TokenAuth  # noqa: PLC0415
        from ..server.options import ServerOptions  # noqa: PLC0415
        from ..wire.errors import ConfigValidationError, NetworkError  # noqa: PLC0415
        from .running import ready, stop_signal  # noqa: PLC0415

        try:
            context = None if tls_certificate is None else tls_context(tls_certificate, tls_key)
        except OSError as error:
            raise ConfigValidationError(f"no usable certificate: {error.strerror}", field="--tls-certificate") from None
        options = ServerOptions(auth=ANONYMOUS if token is None else TokenAuth([token]), socketio_path=socketio_path)
        async with stop_signal() as stop, AsyncExitStack() as stack:
            try:
                running = await stack.enter_async_context(serve(host, port, options, ssl_context=context))
            except OSError as error:
                reason = error.strerror or str(error)
                raise NetworkError(f"cannot listen on {host} port {port}: {reason}", code="listen") from None
            ready(running.url)
            await stop.wait()
        return SUCCESS

    from .running import perform  # noqa: PLC0415

    perform(output, work, log_level="INFO")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
