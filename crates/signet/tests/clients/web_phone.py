"""A page in a browser as a telephone that is driven by lines: what it is told comes by the
input and goes to the page, what befalls the page goes to the output."""

import http.server
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from urllib.parse import urlencode

wants = json.loads(sys.argv[1])
told = queue.Queue()
files = {"/": wants["page"], "/library.js": wants["library"]}


class Site(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body, kind="text/plain"):
        self.send_response(200)
        self.send_header("Content-Type", kind + "; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/next":
            try:
                line = told.get(timeout=20)
            except queue.Empty:
                line = ""
            return self.answer(line.encode())
        if path not in files:
            return self.send_error(404)
        with open(files[path], "rb") as file:
            kind = "text/html" if path == "/" else "text/javascript"
            self.answer(file.read(), kind)

    def do_POST(self):
        line = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer(b"")
        print(line, flush=True)


site = http.server.ThreadingHTTPServer(("127.0.0.1", wants["port"]), Site)
site.daemon_threads = True
threading.Thread(target=site.serve_forever, daemon=True).start()
asked = urlencode({name: wants[name] for name in ("url", "user", "password", "domain")})
browser = subprocess.Popen(
    [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--no-proxy-server",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-default-apps",
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        "--autoplay-policy=no-user-gesture-required",
        f"--user-data-dir={wants['profile']}",
        f"--ignore-certificate-errors-spki-list={wants['key']}",
        f"http://127.0.0.1:{wants['port']}/?{asked}",
    ],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=open(wants["log"], "w"),
    start_new_session=True,
)
for line in sys.stdin:
    if line.strip() == "quit":
        break
    told.put(line.strip())
os.killpg(browser.pid, signal.SIGKILL)
browser.wait()
os._exit(0)
