"""A telephone of pjsip's, driven by lines: what it is told comes by its input, what befalls it
goes to its output."""

import json
import os
import select
import sys

import pjsua2 as pj

wants = json.loads(sys.argv[1])
calls = {}


def tell(*words):
    print(*words, flush=True)


class Call(pj.Call):
    def onCallState(self, prm):
        info = self.getInfo()
        if info.state == pj.PJSIP_INV_STATE_CONFIRMED:
            tell("ESTABLISHED")
        elif info.state == pj.PJSIP_INV_STATE_DISCONNECTED:
            tell("CLOSED", info.lastStatusCode, info.lastReason)
            calls.pop(self.getId(), None)

    def onCallTransferStatus(self, prm):
        tell("TRANSFER", prm.statusCode, prm.finalNotify)

    # Without it what the other end transfers is followed, and the new call is nobody's.
    def onCallTransferRequest(self, prm):
        prm.newCall = keep(Call(account))
        tell("TRANSFERRED", prm.dstUri)


def keep(call):
    # One whose object is collected ends. Its number is not known yet.
    calls[id(call)] = call
    return call


class Account(pj.Account):
    def onRegState(self, prm):
        tell("REGISTERED" if prm.code == 200 and prm.expiration else "UNREGISTERED", prm.code)

    def onIncomingCall(self, prm):
        call = keep(Call(self, prm.callId))
        tell("INCOMING", call.getInfo().remoteUri)
        status = {"auto": 200, "busy": 486, "ring": 180}[wants["answer"]]
        answer(call, status)


def answer(call, status):
    prm = pj.CallOpParam()
    prm.statusCode = status
    call.answer(prm)


def current():
    for call in calls.values():
        if call.isActive():
            return call
    raise RuntimeError("there is no call")


def obey(line):
    word, _, rest = line.partition(" ")
    if word == "dial":
        keep(Call(account)).makeCall(rest, pj.CallOpParam(True))
    elif word == "hangup":
        current().hangup(pj.CallOpParam())
    elif word == "refer":
        current().xfer(rest, pj.CallOpParam())
    elif word == "register":
        account.setRegistration(True)
    elif word == "quit":
        return False
    return True


endpoint = pj.Endpoint()
endpoint.libCreate()
config = pj.EpConfig()
config.logConfig.level = wants.get("level", 3)
config.logConfig.consoleLevel = 0
config.logConfig.filename = wants["log"]
config.uaConfig.threadCnt = 0
config.uaConfig.mainThreadOnly = True
config.medConfig.hasIoqueue = True
endpoint.libInit(config)
endpoint.audDevManager().setNullDev()
kind = wants["transport"]
transport = pj.TransportConfig()
transport.boundAddress = wants["address"]
if kind == "tls":
    transport.tlsConfig.CaListFile = wants["ca"]
    transport.tlsConfig.verifyServer = True
kinds = {
    "udp": pj.PJSIP_TRANSPORT_UDP,
    "tcp": pj.PJSIP_TRANSPORT_TCP,
    "tls": pj.PJSIP_TRANSPORT_TLS,
}
endpoint.transportCreate(kinds[kind], transport)
endpoint.libStart()

account_config = pj.AccountConfig()
own = f"sip:{wants['user']}@{wants['domain']}"
account_config.idUri = own
account_config.regConfig.registrarUri = f"sip:{wants['domain']}"
account_config.regConfig.timeoutSec = 300
account_config.regConfig.retryIntervalSec = 2
account_config.regConfig.firstRetryIntervalSec = 1
proxy = f"sip:{wants['server']};transport={kind};lr"
account_config.sipConfig.proxies.append(proxy)
secret = pj.AuthCredInfo("digest", "*", wants["user"], 0, wants["password"])
account_config.sipConfig.authCreds.append(secret)
account_config.mediaConfig.transportConfig.boundAddress = wants["address"]
account = Account()
account.create(account_config)

is_on, rest = True, b""
while is_on:
    endpoint.libHandleEvents(10)
    if not select.select([0], [], [], 0)[0]:
        continue
    read = os.read(0, 65536)
    if not read:
        break
    *lines, rest = (rest + read).split(b"\n")
    for line in lines:
        try:
            is_on = obey(line.decode())
        except (pj.Error, RuntimeError) as error:
            tell("ERROR", getattr(error, "reason", error))
tell("BYE")
# What its library does at an end takes longer than anybody waits.
os._exit(0)
