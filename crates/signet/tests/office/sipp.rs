//! SIPp as a telephone: scenarios that register, are called, and call with a password.

use std::fs;
use std::path::Path;

use super::support::Running;
use super::support::command::text;
use super::{DOMAIN, PATIENCE};

fn send(message: &str) -> String {
    format!("<send retrans=\"500\"><![CDATA[\n\n{message}]]></send>\n")
}

fn whole(name: &str, steps: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<scenario name=\"{name}\">\n{steps}</scenario>\n"
    )
}

/// A telephone at an address, as its own program. What it is not told is done as others do.
pub(crate) struct Sipp<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) enter: Vec<String>,
    pub(crate) user: &'a str,
    pub(crate) password: String,
    pub(crate) address: &'a str,
    pub(crate) server: &'a str,
}

/// How a call that it makes is to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// It is answered, and the caller hangs up.
    Answered,
    /// It is answered with this.
    Refused(u16),
}

impl Sipp<'_> {
    fn start(&self, name: &str, steps: &str, more: &[&str]) -> (Running, std::path::PathBuf) {
        let name = format!("sipp-{}-{name}", self.user);
        let file = self.folder.join(format!("{name}.xml"));
        fs::write(&file, whole(&name, steps)).unwrap();
        let log = self.folder.join(format!("{name}.log"));
        let messages = self.folder.join(format!("{name}.msg"));
        let mut words: Vec<&str> = self.enter.iter().map(String::as_str).collect();
        words.extend(["sipp", "-sf", text(&file), "-i", self.address, "-nostdin"]);
        words.extend(["-trace_msg", "-message_file", text(&messages)]);
        words.extend(more);
        words.push(self.server);
        (Running::start(words[0], &words[1..], &log), log)
    }

    /// Runs a scenario of one call to its end, which must be as it says.
    #[track_caller]
    fn run(&self, name: &str, steps: &str, more: &[&str]) {
        let once = ["-m", "1", "-timeout", "20", "-timeout_error"];
        let (mut running, log) = self.start(name, steps, &[&once[..], more].concat());
        let code = running.wait(PATIENCE);
        assert_eq!(
            code,
            Some(0),
            "{}: {name}: {}",
            self.user,
            fs::read_to_string(log).unwrap()
        );
    }

    /// Registers, and answers calls from then on.
    pub(crate) fn register_and_answer(&self) -> Running {
        let request = |cseq: u32, more: &str| {
            let user = self.user;
            send(&format!(
                "REGISTER sip:{DOMAIN} SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\n\
                 Max-Forwards: 70\nFrom: <sip:{user}@{DOMAIN}>;tag=[pid]x[call_number]\nTo: <sip:{user}@{DOMAIN}>\n\
                 Call-ID: [call_id]\nCSeq: {cseq} REGISTER\nContact: <sip:{user}@[local_ip]:[local_port]>\n\
                 Expires: 600\nUser-Agent: SIPp\n{more}Content-Length: 0\n\n"
            ))
        };
        let steps = [
            request(1, ""),
            "<recv response=\"401\" auth=\"true\"/>\n".to_owned(),
            request(2, &self.proof()),
            "<recv response=\"200\"/>\n".to_owned(),
        ];
        self.run(
            "register",
            &steps.concat(),
            &["-p", "5090", "-auth_uri", DOMAIN],
        );
        self.start("called", CALLED, &["-p", "5090", "-aa"]).0
    }

    fn proof(&self) -> String {
        let (user, password) = (self.user, &self.password);
        format!("[authentication username={user} password={password}]\n")
    }

    /// Calls; a caller who hides has no name in From, and asks that none is shown.
    #[track_caller]
    pub(crate) fn call(&self, called: &str, is_hidden: bool, end: End) {
        let uri = format!("sip:{called}@{DOMAIN}");
        let (from, privacy) = match is_hidden {
            true => (
                "\"Anonymous\" <sip:anonymous@anonymous.invalid>".to_owned(),
                "Privacy: id\n",
            ),
            false => (format!("<sip:{}@{DOMAIN}>", self.user), ""),
        };
        let request = |method: &str, cseq: u32, uri: &str, more: &str| {
            // What the challenge had in To is of no dialog.
            let tag = if method == "INVITE" {
                ""
            } else {
                "[peer_tag_param]"
            };
            format!(
                "{method} {uri} SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\n\
                 Max-Forwards: 70\nFrom: {from};tag=[pid]x[call_number]\nTo: <sip:{called}@{DOMAIN}>{tag}\n\
                 Call-ID: [call_id]\nCSeq: {cseq} {method}\nContact: <sip:[local_ip]:[local_port]>\n\
                 {privacy}{more}Content-Length: 0\n\n"
            )
        };
        let ack = |text: &str| format!("<send><![CDATA[\n\n{text}]]></send>\n");
        let mut steps = send(&request("INVITE", 1, &uri, ""));
        steps += "<recv response=\"407\" auth=\"true\"/>\n";
        steps += &ack(&request("ACK", 1, &uri, ""));
        steps += &send(&request("INVITE", 2, &uri, &self.proof()));
        for provisional in [100, 180, 183] {
            steps += &format!("<recv response=\"{provisional}\" optional=\"true\"/>\n");
        }
        match end {
            End::Answered => {
                steps += "<recv response=\"200\" rrs=\"true\"/>\n";
                steps += &ack(&request("ACK", 2, "[next_url]", "[routes]\n"));
                steps += "<pause milliseconds=\"200\"/>\n";
                steps += &send(&request("BYE", 3, "[next_url]", "[routes]\n"));
                steps += "<recv response=\"200\"/>\n";
            }
            End::Refused(status) => {
                steps += &format!("<recv response=\"{status}\"/>\n");
                steps += &ack(&request("ACK", 2, &uri, ""));
            }
        }
        let name = format!("calls-{}", called.trim_start_matches('+'));
        self.run(&name, &steps, &["-auth_uri", &format!("{called}@{DOMAIN}")]);
    }
}

/// What a telephone of SIPp's does that is called.
const CALLED: &str = r#"<recv request="INVITE"/>
<send><![CDATA[

SIP/2.0 180 Ringing
[last_Via:]
[last_Record-Route:]
[last_From:]
[last_To:];tag=[pid]SIPpTag01[call_number]
[last_Call-ID:]
[last_CSeq:]
Contact: <sip:[local_ip]:[local_port];transport=[transport]>
Content-Length: 0

]]></send>
<send retrans="500"><![CDATA[

SIP/2.0 200 OK
[last_Via:]
[last_Record-Route:]
[last_From:]
[last_To:];tag=[pid]SIPpTag01[call_number]
[last_Call-ID:]
[last_CSeq:]
Contact: <sip:[local_ip]:[local_port];transport=[transport]>
Content-Type: application/sdp
Content-Length: [len]

v=0
o=- 1 1 IN IP4 [local_ip]
s=-
c=IN IP4 [media_ip]
t=0 0
m=audio [media_port] RTP/AVP 0
a=rtpmap:0 PCMU/8000

]]></send>
<recv request="ACK"/>
<recv request="BYE"/>
<send><![CDATA[

SIP/2.0 200 OK
[last_Via:]
[last_From:]
[last_To:]
[last_Call-ID:]
[last_CSeq:]
Content-Length: 0

]]></send>
"#;
