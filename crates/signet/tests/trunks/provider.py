"""A provider of sippy's: it wants a password for a registration, for each call, and for what
ends one, by the digest algorithm that it is told. What befalls it goes to its output."""

import json
import os
import sys

from sippy.CCEvents import CCEventConnect, CCEventDisconnect, CCEventRing, CCEventTry
from sippy.Core.EventDispatcher import ED2
from sippy.MsgBody import MsgBody
from sippy.SipExpires import SipExpires
from sippy.SipHeader import SipHeader
from sippy.SipLogger import SipLogger
from sippy.SipTransactionManager import SipTransactionManager
from sippy.SipWWWAuthenticate import SipWWWAuthenticate
from sippy.UA import UA

wants = json.loads(sys.argv[1])
sdp = (
    f"v=0\r\no=sippy 1 1 IN IP4 {wants['address']}\r\ns=-\r\nc=IN IP4 {wants['address']}\r\n"
    "t=0 0\r\nm=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
)
# They would be collected otherwise.
calls = []


def tell(*words):
    print(*words, flush=True)


def challenge(request):
    """What asks for the password; nothing where the request proves it."""
    method = request.getMethod()
    if request.countHFs("authorization"):
        proof = request.getHFBody("authorization").getCopy()
        is_named = (proof.realm, proof.username) == (wants["realm"], wants["user"])
        if is_named and proof.verify(wants["password"], method):
            tell("PROVED", method, proof.algorithm)
            return None
        tell("REFUSED", method, proof.algorithm)
    answer = request.genResponse(401, "Unauthorized")
    body = SipWWWAuthenticate(realm=wants["realm"], algorithm=wants["algorithm"])
    answer.appendHeader(SipHeader(name="www-authenticate", body=body))
    return answer


class Asking(UA):
    """An end of a call that asks within it as well."""

    def recvRequest(self, request, transaction):
        if request.getMethod() in ("INVITE", "BYE"):
            answer = challenge(request)
            if answer is not None:
                return (answer, None, None)
        return super().recvRequest(request, transaction)


def befell(event, ua):
    if isinstance(event, CCEventTry):
        ua.recvEvent(CCEventRing((180, "Ringing", None)))
        ua.recvEvent(CCEventConnect((200, "OK", MsgBody(sdp))))
    elif isinstance(event, CCEventConnect):
        tell("ESTABLISHED")
    elif isinstance(event, CCEventDisconnect):
        tell("OVER")


def arrived(request, transaction):
    method = request.getMethod()
    if request.getHFBody("to").getTag() is not None:
        return (request.genResponse(481, "Call Leg/Transaction Does Not Exist"), None, None)
    if method == "INVITE":
        ua = Asking(config, befell)
        calls.append(ua)
        return ua.recvRequest(request, transaction)
    if method == "REGISTER":
        answer = challenge(request)
        if answer is not None:
            return (answer, None, None)
        answer = request.genResponse(200, "OK")
        for contact in request.getHFs("contact"):
            answer.appendHeader(contact.getCopy())
        expires = SipExpires(number=request.getHFBody("expires").getNum())
        answer.appendHeader(SipHeader(name="expires", body=expires))
        return (answer, None, None)
    return (request.genResponse(200, "OK"), None, None)


os.environ.update(SIPLOG_BEND="file", SIPLOG_LVL="DBUG", SIPLOG_LOGFILE_FILE=wants["log"])
config = {
    "_sip_address": wants["address"],
    "_sip_port": wants["port"],
    "_sip_logger": SipLogger("sippy", logfile=wants["log"]),
}
config["_sip_tm"] = SipTransactionManager(config, arrived)
ED2.loop()
