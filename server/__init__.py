"""The signalling Server: rooms and routing as a pure core, an asynchronous and a synchronous shell around it."""

from .app import Running, SmcpAsgiApp, create_asgi_app, serve, tls_context
from .auth import ANONYMOUS, AuthProvider, Credentials, TokenAuth
from .limits import Limits
from .options import ServerOptions
from .sync_shell import SmcpWsgiApp, create_wsgi_app
from .version_gate import AsgiVersionGate, WsgiVersionGate

__all__ = [
    "ANONYMOUS",
    "AsgiVersionGate",
    "AuthProvider",
    "Credentials",
    "Limits",
    "Running",
    "ServerOptions",
    "SmcpAsgiApp",
    "SmcpWsgiApp",
    "TokenAuth",
    "WsgiVersionGate",
    "create_asgi_app",
    "create_wsgi_app",
    "serve",
    "tls_context",
]
