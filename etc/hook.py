"""A hook for Signet (docs/HOOK.md): python3 hook.py 8090"""
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACCOUNTS = {"alice@example.com": "4711"}

def answer(question):
    number, uri = question["number"] or "", question["request_uri"]
    if number.startswith("0900"):
        return {"action": "reject", "status": 403, "reason": "No premium numbers", "cache_s": 60}
    if number:
        account = ACCOUNTS.get(question["user"], "none")
        return {"action": "route", "to": "outside", "headers": {"X-Account": account}}
    if uri.startswith("sip:office@"):
        return {"action": "rewrite", "request_uri": uri.replace("office", "reception", 1)}
    return {"action": "continue"}

class Hook(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1  # connections are kept; answers leave whole
    log_request = lambda *_: None
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = [{"id": each["id"], **answer(each)} for each in asked["questions"]]
        body = json.dumps({"version": 1, "answers": answers}).encode()
        self.send_response(200)
        for name, value in ("Content-Type", "application/json"), ("Content-Length", len(body)):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hook).serve_forever()
