"""A Hub on this machine: as much of its HTTP as pushing and pulling need, and ways to make it misbehave."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

OWNER, TOKEN = "maria", "hf_secretsecretsecret"


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class HubServer(ThreadingHTTPServer):
    """Repositories as tables of files; `seen` has every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.gated: set[str] = set()
        self.messages: list[str] = []
        self.large: dict[str, bytes] = {}  # what was uploaded beside a commit, by its SHA-256
        self.cuts: dict[str, int] = {}  # after how many bytes the next answer with this file breaks off
        self.swapped: dict[str, bytes] = {}  # files that are another than the list says
        self.listing: Any = None  # instead of the true one
        self.status = 0  # of every answer
        self.redirect = ""  # the server where files lie
        self.broken = False  # whether large files are refused
        self.seen: list[tuple[str, str, Message]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that hangs up is part of the tests

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def commit(self, name: str) -> str:
        files = sorted(self.repositories[name].items())
        return hashlib.sha1(repr(files).encode()).hexdigest()

    def told(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "sha": self.commit(name),
            "private": name in self.private,
            "siblings": [self.sibling(*file) for file in self.repositories[name].items()],
        }

    def sibling(self, name: str, data: bytes) -> dict[str, Any]:
        table = {"rfilename": name, "size": len(data), "blobId": blob(data)}
        if name.endswith((".safetensors", ".bin")):
            table["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return table


class Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.begin()
        if self.server.status:
            return self.say(self.server.status, {"error": "as the test wishes"})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/([^/]+)", path):
            return self.tell(found[1], unquote(found[2]))
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)", path):
            return self.tell(found[1], "main")
        if self.server.redirect and "/resolve/" in path:
            return self.say(302, {}, {"Location": self.server.redirect + path})
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.give(found[1], unquote(found[2]), unquote(found[3]))
        self.say(404, {"error": f"no route {path}"})

    def tell(self, name: str, revision: str) -> None:
        host = self.server
        if name in host.private and not self.known:
            return self.say(401, {"error": "Invalid username or password."})
        if name not in host.repositories or revision not in ("main", host.commit(name)):
            return self.say(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        self.say(200, host.told(name) if host.listing is None else host.listing)

    def give(self, name: str, commit: str, file: str) -> None:
        host = self.server
        if name in host.gated and not self.known:
            return self.say(401, {"error": "Access to this repository is restricted"})
        files = host.repositories.get(name, {})
        if file not in files or commit != host.commit(name):
            return self.say(404, {"error": "Entry not found"})
        data, etag, start = host.swapped.get(file, files[file]), f'"{blob(files[file])}"', 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        if asked and self.headers["If-Range"] == etag:
            start = int(asked[1])
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        body = data[start:]
        if file in host.cuts:
            body = body[: host.cuts.pop(file)]
            self.close_connection = True
        self.wfile.write(body)

    def do_POST(self) -> None:
        path, host = self.begin(), self.server
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if host.status:
            return self.say(host.status, {"error": "as the test wishes"})
        if path == "/api/validate-yaml":
            return self.say(200, {"errors": [], "warnings": []})
        if not self.known:
            return self.say(401, {"error": "Invalid username or password."})
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/main", path):
            return self.plan(json.loads(body)["files"])
        if found := re.fullmatch(r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            return self.accept(json.loads(body)["objects"])
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path):
            return self.write(found[1], [json.loads(line) for line in body.splitlines()])
        self.say(404, {"error": f"no route {path}"})

    def create(self, asked: dict[str, Any]) -> None:
        name = f"{asked.get('organization') or OWNER}/{asked['name']}"
        if not name.startswith(f"{OWNER}/"):
            return self.say(403, {"error": "You don't have the rights to create a model under this namespace"})
        if name in self.server.repositories:
            return self.say(409, {"error": "You already created this model repo", "url": f"{self.server.base}/{name}"})
        self.server.repositories[name] = {}
        if asked.get("private") or asked.get("visibility") == "private":
            self.server.private.add(name)
        self.say(200, {"url": f"{self.server.base}/{name}", "name": name})

    def plan(self, files: list[dict[str, Any]]) -> None:
        modes = {True: "lfs", False: "regular"}
        told = [{"path": f["path"], "uploadMode": modes[f["path"].endswith(".safetensors")]} for f in files]
        self.say(200, {"files": [{**each, "shouldIgnore": False, "oid": None} for each in told]})

    def accept(self, objects: list[dict[str, Any]]) -> None:
        base = self.server.base
        told = [
            {"oid": each["oid"], "size": each["size"], "actions": {"upload": {"href": f"{base}/lfs/{each['oid']}"}}}
            for each in objects
        ]
        self.say(200, {"transfer": "basic", "objects": told})

    def do_PUT(self) -> None:
        path = self.begin()
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.broken:
            return self.say(400, {"error": "as the test wishes"})
        assert hashlib.sha256(data).hexdigest() == path.rpartition("/")[2]
        self.server.large[path.rpartition("/")[2]] = data
        self.say(200, {})

    def write(self, name: str, lines: list[dict[str, Any]]) -> None:
        host = self.server
        files = host.repositories[name]
        for line in lines:
            value = line["value"]
            match line["key"]:
                case "header":
                    host.messages.append(value["summary"])
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = host.large[value["oid"]]
        commit = host.commit(name)
        self.say(200, {"commitUrl": f"{host.base}/{name}/commit/{commit}", "commitOid": commit, "success": True})

    @property
    def known(self) -> bool:
        return self.headers["Authorization"] == f"Bearer {TOKEN}"

    def begin(self) -> str:
        self.server.seen.append((self.command, self.path, self.headers))
        return urlsplit(self.path).path

    def say(self, status: int, table: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(table).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[HubServer]:
    with HubServer() as host:
        thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield host
        finally:
            host.shutdown()
            thread.join()
