"""A telephone of sippy's, driven by lines: what it is told comes by its input, what befalls it
goes to its output. With a realm it is a provider, who wants a password for every call."""

import json
import os
import sys

from sippy.CCEvents import CCEventConnect, CCEventDisconnect, CCEventFail, CCEventRing, CCEventTry
from sippy.Core.EventDispatcher import ED2
from sippy.MsgBody import MsgBody
from sippy.SipHeader import SipHeader
from sippy.SipLogger import SipLogger
from sippy.SipRegistrationAgent import SipRegistrationAgent
from sippy.SipTransactionManager import SipTransactionManager
from sippy.SipURL import SipURL
from sippy.SipWWWAuthenticate import SipWWWAuthenticate
from sippy.UA import UA

wants = json.loads(sys.argv[1])
address, port = wants["address"], wants["port"]
host, _, number = wants.get("server", ":0").partition(":")
server = (host, int(number))
calls = []
sdp = (
    f"v=0\r\no=sippy 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\n"
    f"m=audio {port + 1000} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
)


def tell(*words):
    print(*words, flush=True)


class Dial(CCEventTry):
    """A call from our name to a name of our domain; what is dialled may be a whole URI."""

    def onUacSetupComplete(self, ua):
        ua.lUri.getUrl().host = wants["domain"]
        user, _, domain = self.data[2].partition("@")
        for url in (ua.rTarget, ua.rUri.getUrl()):
            url.username, url.host = user, domain or wants["domain"]
            url.port = url.transport = None
        ua.rAddr = (server, "udp")


def befell(event, ua):
    if isinstance(event, CCEventTry):
        tell("INCOMING", event.getData()[1])
        ua.recvEvent(CCEventRing((180, "Ringing", None)))
        if wants["answer"] == "auto":
            ua.recvEvent(CCEventConnect((200, "OK", MsgBody(sdp))))
        elif wants["answer"] == "busy":
            ua.recvEvent(CCEventFail((486, "Busy Here")))
    elif isinstance(event, CCEventConnect):
        tell("ESTABLISHED")
    elif isinstance(event, CCEventFail):
        tell("CLOSED", *event.getData()[:2])
        calls.remove(ua)
    elif isinstance(event, CCEventDisconnect):
        tell("CLOSED 0")
        calls.remove(ua)


def established(ua, *_):
    tell("ESTABLISHED")


def begin():
    ua = UA(
        config,
        befell,
        username=wants["user"],
        password=wants["password"],
        nh_address=server,
        nh_transport="udp",
    )
    calls.append(ua)
    return ua


def challenged(request):
    """Whether the request proves the password; if not, the answer that asks for it."""
    if request.countHFs("authorization"):
        proof = request.getHFBody("authorization").getCopy()
        method = request.getMethod()
        if proof.realm == wants["realm"] and proof.username == wants["user"]:
            if proof.verify(wants["password"], method):
                tell("PROVED", method)
                return None
        tell("REFUSED", method)
    answer = request.genResponse(401, "Unauthorized")
    body = SipWWWAuthenticate(realm=wants["realm"], algorithm="SHA-256")
    answer.appendHeader(SipHeader(name="www-authenticate", body=body))
    return answer


def arrived(request, transaction):
    method = request.getMethod()
    if request.getHFBody("to").getTag() is not None:
        return (request.genResponse(481, "Call Leg/Transaction Does Not Exist"), None, None)
    if method == "INVITE":
        if "realm" in wants:
            answer = challenged(request)
            if answer is not None:
                return (answer, None, None)
        tell("INVITE", request.getRURI(), "FROM", request.getHFBody("from").getUri())
        ua = UA(config, befell)
        ua.conn_cbs = (established,)
        calls.append(ua)
        return ua.recvRequest(request, transaction)
    return (request.genResponse(200, "OK"), None, None)


def registered(*_):
    tell("REGISTERED")


def refused(line, _):
    tell("UNREGISTERED", line)


def register():
    own = SipURL(username=wants["user"], host=wants["domain"])
    contact = SipURL(username=wants["user"], host=address, port=port)
    agent = SipRegistrationAgent(
        config,
        own,
        contact,
        wants["user"],
        wants["password"],
        exp=300,
        rok_cb=registered,
        rfail_cb=refused,
        target=(server, "udp"),
    )
    agent.doregister()


def obey(line):
    word, _, rest = line.partition(" ")
    if word == "dial":
        begin().recvEvent(Dial((None, wants["user"], rest, MsgBody(sdp), None, None)))
    elif word == "hangup":
        calls[-1].disconnect()
    elif word == "register":
        register()
    elif word == "quit":
        ED2.breakLoop()


def read(rest=b""):
    while True:
        came = os.read(0, 65536)
        if not came:
            ED2.callFromThread(ED2.breakLoop)
            return
        *lines, rest = (rest + came).split(b"\n")
        for line in lines:
            ED2.callFromThread(obey, line.decode())


os.environ.update(SIPLOG_BEND="file", SIPLOG_LVL="DBUG", SIPLOG_LOGFILE_FILE=wants["log"])
config = {
    "_sip_address": address,
    "_sip_port": port,
    "_sip_logger": SipLogger("sippy", logfile=wants["log"]),
}
config["_sip_tm"] = SipTransactionManager(config, arrived)
if "server" in wants:
    register()
from threading import Thread

Thread(target=read, daemon=True).start()
ED2.loop()
os._exit(0)
