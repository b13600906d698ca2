"""A daemon in place of banyand, which serves the dashboard and a cluster that a test makes up."""
import http.server
import json
import os
import threading

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dist", "dashboard.html")


def rank(number, host, **more):
    return {"rank": number, "host": host, "process": 4000 + number, "user": 1000, "program": "train.py",
            "calls_begun": 0, "calls_over": 0, "messages_over": 0, "payload_bytes": 0, "sent_tcp_bytes": 0,
            "sent_shared_memory_bytes": 0, "call": "", "call_seconds": 0, "stalled_seconds": 0, "idle_seconds": 0,
            "waiting_for": None, "core_seconds": 0, "generation": 0, "reroutes": 0, "error": "", **more}


def communicator(id, name, tenant, ranks, **more):
    return {"id": id, "name": name, "tenant": tenant, "size": len(ranks), "hosts": sorted({r["host"] for r in ranks}),
            "rule": "default", "sharer": tenant, "weight": 1, "share_class": "normal", "cap": None, "rate": None, "progress": 0,
            "ranks": ranks, **more}


def host(name, **more):
    return {"at": 0, "host": "id of " + name, "name": name, "node": name, "version": "0.2.0", "up_seconds": 0,
            "steward": "a", "is_draining": False, "rules_version": 1, "clients": 2, "memory_bytes": 1 << 30,
            "core_seconds": 0, "refused": {}, "replans": 0, "events_dropped": 0, "communicators": [], "links": [],
            "events": [], **more}


def link(name, capacity, **bytes_by_tenant):
    return {"name": name, "capacity": capacity, "bytes_by_tenant": bytes_by_tenant}


def cluster(**more):
    return {"at": 0, "hosts": [], "unreachable": [], "communicators": [], "links": [], "events": [], "findings": [],
            **more}


class FakeDaemon:
    """`view` makes the answer of the question with this number, the first being 0; each comes a second after the one
    before, whenever it is asked. None: it hangs up. A text: an error."""

    def __init__(self, view):
        self.view, self.asked, self.lock = view, 0, threading.Lock()
        daemon = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path = self.path.partition("?")[0]
                if path == "/":
                    with open(PAGE, "rb") as page:
                        self.answer(200, "text/html; charset=utf-8", page.read())
                elif path == "/v1/cluster":
                    said = daemon.next()
                    if said is None:
                        self.close_connection = True
                    elif isinstance(said, str):
                        self.answer(500, "application/json", json.dumps({"error": said}).encode())
                    else:
                        self.answer(200, "application/json", json.dumps(said).encode())
                else:
                    self.answer(404, "application/json", b"{}")

            def answer(self, status, kind, body):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # a browser that goes
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def next(self):
        with self.lock:
            number = self.asked
            self.asked += 1
        said = self.view(number)
        if isinstance(said, dict):
            said["at"] = 1_800_000_000 + number
            for each in said["hosts"]:
                each["at"] = said["at"]
                each["up_seconds"] = each["up_seconds"] or 100 + number
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
