"""The service as an ASGI application, put together; any server of ASGI can run it, and ours is in server.py."""

from patchwords.serve.http.front import Front
from patchwords.serve.http.guard import Guard
from patchwords.serve.http.router import Router
from patchwords.serve.http.routes import doors
from patchwords.serve.http.service import Service


def app(service: Service, guard: Guard) -> Front:
    return Front(service, guard, Router(doors(service)))
