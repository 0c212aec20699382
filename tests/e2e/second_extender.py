"""A second scheduler extender, which rejects the nodes with a label: ``second_extender.py PORT LABEL=VALUE``.

kube-scheduler sends it whole nodes. It answers as ``FailedNodes``, so an eviction might help.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def main(port: int, label: str) -> None:
    key, _, value = label.partition("=")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            items = asked["Nodes"]["items"] or []
            kept = [each for each in items if each["metadata"].get("labels", {}).get(key) != value]
            failed = {each["metadata"]["name"]: "node(s) are not wanted" for each in items if each not in kept}
            answer = {
                "Nodes": {"metadata": {}, "items": kept}, "NodeNames": None, "FailedNodes": failed,
                "FailedAndUnresolvableNodes": None, "Error": "",
            }  # fmt: skip
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
