"""An application whose answers describe the requests that its server found.

``described_requests.py OURS PORT PROBE_PORT`` runs it on Berthmaster's server, and ``described_requests.py GUNICORN
PORT`` on gunicorn's own threaded worker with the same limits.
"""

import sys
from contextlib import suppress

from echo_service import DEFAULTS, Service
from gunicorn.app.base import BaseApplication
from gunicorn.http.errors import ParseException

from berthmaster.serving.bodies import BodyError, read_body
from berthmaster.serving.request_parser import MAX_FIELD_BYTES, MAX_FIELDS, MAX_LINE_BYTES, BodyCollection
from berthmaster.serving.server import ServedApp, ServerOptions, serve

BODY_BYTES = 2**16


def application(environ, start_response):
    try:
        body = read_body(environ, BODY_BYTES)
    except (BodyError, ParseException) as error:
        start_response(f"{getattr(error, 'status', 400)} Refused", [("Content-Length", "0")])
        return []
    names = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "wsgi.url_scheme")
    words = " ".join([*(environ[name] for name in names), body.decode()]).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(words) + 4))])
    return [b"<<" + words + b">>"]


class Described(Service):
    def application(self, _metrics):
        return ServedApp(application, {"/described": lambda _body: True}, BodyCollection(BODY_BYTES))


class Gunicorn(BaseApplication):
    def __init__(self, port):
        self._port = port
        super().__init__()

    def load_config(self):
        for name, value in {
            "bind": f"127.0.0.1:{self._port}", "worker_class": "gthread", "threads": 4, "loglevel": "error",
            "limit_request_line": MAX_LINE_BYTES, "limit_request_fields": MAX_FIELDS,
            "limit_request_field_size": MAX_FIELD_BYTES, "forwarded_allow_ips": "", "forwarder_headers": "",
            "secure_scheme_headers": {}, "control_socket_disable": True,
        }.items():  # fmt: skip
            self.cfg.set(name, value)

    def load(self):
        return application


if __name__ == "__main__":
    port = int(sys.argv[2])
    with suppress(KeyboardInterrupt):
        if sys.argv[1] == "OURS":
            serve(ServerOptions(**{**DEFAULTS, "port": port, "probe_port": int(sys.argv[3])}), Described())
        else:
            Gunicorn(port).run()
