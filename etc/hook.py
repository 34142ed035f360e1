#!/usr/bin/env python3
"""A hook for Signet (docs/HOOK.md): python3 hook.py 8090"""
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACCOUNTS = {"alice@example.com": "4711"}

def answer(question):
    uri, account = question["request_uri"], ACCOUNTS.get(question["user"], "none")
    if uri.startswith("sip:0900"):
        return {"action": "reject", "status": 403, "reason": "No premium numbers", "cache_s": 60}
    if uri.startswith("sip:office@"):
        return {"action": "rewrite", "request_uri": uri.replace("office", "reception", 1)}
    if uri.startswith("sip:0"):
        return {"action": "route", "to": "outside", "headers": {"X-Account": account}}
    return {"action": "continue"}

class Hook(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1  # connections are kept; answers leave whole

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = [{"id": each["id"], **answer(each)} for each in asked["questions"]]
        body = json.dumps({"version": 1, "answers": answers}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hook).serve_forever()
