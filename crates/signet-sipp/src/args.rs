//! SIPp's command line. What is not covered is refused by name.

use std::ffi::OsString;
use std::path::PathBuf;

use sip_scenario::{Behaviors, InjectionFile};

mod number;
mod refused;
mod third_party;

pub(crate) use number::{duration_ms, whole};
pub(crate) use third_party::ThirdParty;

/// Users, each of which has variables of its own.
const USERS_MAX: u32 = 1_000_000;

/// Which sockets calls use (`-t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One socket, or one connection, for all calls.
    One,
    /// One for each call.
    PerCall,
    /// One for each local address in the injection file.
    PerAddress,
}

/// Where the scenario comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScenarioSource {
    /// A file.
    File(PathBuf),
    /// One that is built in.
    BuiltIn(String),
}

/// What is written to files beside the results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    pub(crate) stat: bool,
    pub(crate) messages: bool,
    pub(crate) short_messages: bool,
    pub(crate) errors: bool,
    pub(crate) error_codes: bool,
    pub(crate) rtt: bool,
    pub(crate) counts: bool,
    pub(crate) screen: bool,
    pub(crate) logs: bool,
    pub(crate) stat_file: Option<PathBuf>,
    pub(crate) message_file: Option<PathBuf>,
    pub(crate) short_message_file: Option<PathBuf>,
    pub(crate) error_file: Option<PathBuf>,
    pub(crate) screen_file: Option<PathBuf>,
    pub(crate) log_file: Option<PathBuf>,
}

/// The command line, read.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    pub(crate) remote: Option<String>,
    pub(crate) scenario: ScenarioSource,
    pub(crate) dump: Option<String>,
    pub(crate) help: bool,
    pub(crate) version: bool,
    pub(crate) check: bool,
    pub(crate) no_media: bool,
    pub(crate) echoes: bool,
    pub(crate) third_party: ThirdParty,
    pub(crate) transport: sip_msg::Transport,
    pub(crate) mode: Mode,
    /// An address or a name, as that of the media is.
    pub(crate) local_host: Option<String>,
    pub(crate) binds_local: bool,
    pub(crate) local_port: Option<u16>,
    pub(crate) media_host: Option<String>,
    pub(crate) media_port: u16,
    pub(crate) send_to: Option<String>,
    pub(crate) rate: f64,
    pub(crate) rate_period_ms: u64,
    pub(crate) rate_scale: f64,
    pub(crate) rate_increase: f64,
    pub(crate) rate_interval_ms: Option<u64>,
    pub(crate) rate_max: f64,
    pub(crate) rate_quits: bool,
    pub(crate) calls_max: Option<u64>,
    /// 0 is no bound.
    pub(crate) open_calls_max: Option<u64>,
    pub(crate) users: Option<u32>,
    pub(crate) sockets_max: usize,
    /// `None` is no bound.
    pub(crate) reconnects_max: Option<u32>,
    pub(crate) reconnect_closes: bool,
    pub(crate) reconnect_sleep_ms: u64,
    pub(crate) pause_ms: u64,
    pub(crate) service: String,
    pub(crate) auth_user: Option<String>,
    pub(crate) auth_password: String,
    pub(crate) auth_uri: Option<String>,
    pub(crate) keys: Vec<(String, Vec<u8>)>,
    pub(crate) set: Vec<(String, Vec<u8>)>,
    pub(crate) files: Vec<String>,
    pub(crate) indexes: Vec<(String, usize)>,
    pub(crate) ip_field: Option<usize>,
    pub(crate) base_cseq: u32,
    pub(crate) call_id: String,
    pub(crate) dynamic_id: (u32, u32, u32),
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) timeout_error: bool,
    pub(crate) recv_timeout_ms: Option<u64>,
    pub(crate) send_timeout_ms: Option<u64>,
    pub(crate) dead_call_ms: u64,
    pub(crate) answers: bool,
    pub(crate) retransmits: bool,
    pub(crate) invite_retransmissions_max: u32,
    pub(crate) retransmissions_max: u32,
    /// The bound of both.
    pub(crate) any_retransmissions_max: u32,
    pub(crate) t2_ms: u64,
    pub(crate) behaviors: Behaviors,
    pub(crate) lost: f64,
    pub(crate) pauses_deaf: bool,
    pub(crate) slashes_plain: bool,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_ca: Option<PathBuf>,
    pub(crate) tls_crl: Option<PathBuf>,
    pub(crate) tls_version: Option<String>,
    pub(crate) background: bool,
    pub(crate) reads_keys: bool,
    pub(crate) buffer_bytes: Option<usize>,
    pub(crate) screen_period_ms: u64,
    pub(crate) stat_period_ms: u64,
    pub(crate) stat_delimiter: String,
    pub(crate) rtt_frequency: u64,
    pub(crate) traces: Traces,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            remote: None,
            scenario: ScenarioSource::BuiltIn("uac".to_owned()),
            dump: None,
            help: false,
            version: false,
            check: false,
            no_media: false,
            echoes: false,
            third_party: ThirdParty::default(),
            transport: sip_msg::Transport::Udp,
            mode: Mode::One,
            local_host: None,
            binds_local: false,
            local_port: None,
            media_host: None,
            media_port: 6_000,
            send_to: None,
            rate: 10.0,
            rate_period_ms: 1_000,
            rate_scale: 1.0,
            rate_increase: 0.0,
            rate_interval_ms: None,
            rate_max: 0.0,
            rate_quits: true,
            calls_max: None,
            open_calls_max: None,
            users: None,
            sockets_max: 50_000,
            reconnects_max: Some(0),
            reconnect_closes: true,
            reconnect_sleep_ms: 1_000,
            pause_ms: 0,
            service: "service".to_owned(),
            auth_user: None,
            auth_password: "password".to_owned(),
            auth_uri: None,
            keys: Vec::new(),
            set: Vec::new(),
            files: Vec::new(),
            indexes: Vec::new(),
            ip_field: None,
            base_cseq: 1,
            call_id: "%u-%p@%s".to_owned(),
            dynamic_id: (10_000, 12_000, 4),
            timeout_ms: None,
            timeout_error: false,
            recv_timeout_ms: None,
            send_timeout_ms: None,
            dead_call_ms: 33_000,
            answers: false,
            retransmits: true,
            invite_retransmissions_max: 5,
            retransmissions_max: 9,
            any_retransmissions_max: 9,
            t2_ms: 4_000,
            behaviors: Behaviors::default(),
            lost: 0.0,
            pauses_deaf: false,
            slashes_plain: false,
            tls_cert: None,
            tls_key: None,
            tls_ca: None,
            tls_crl: None,
            tls_version: None,
            background: false,
            reads_keys: true,
            buffer_bytes: None,
            screen_period_ms: 1_000,
            stat_period_ms: 60_000,
            stat_delimiter: ";".to_owned(),
            rtt_frequency: 200,
            traces: Traces::default(),
        }
    }
}

/// The words of a command line, one after the other.
struct Words<I> {
    words: I,
    option: String,
}

impl<I: Iterator<Item = OsString>> Words<I> {
    /// The next argument of the option being read.
    fn value(&mut self) -> Result<String, String> {
        let Some(word) = self.words.next() else {
            return Err(format!("-{} needs a value", self.option));
        };
        word.into_string()
            .map_err(|word| format!("-{} {word:?}: not UTF-8", self.option))
    }

    fn path(&mut self) -> Result<PathBuf, String> {
        let word = self.words.next();
        word.map(PathBuf::from)
            .ok_or_else(|| format!("-{} needs a file name", self.option))
    }

    fn read<T>(&mut self, what: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, String> {
        let value = self.value()?;
        read(&value).ok_or_else(|| format!("-{} {value}: {what} is expected", self.option))
    }

    fn ms(&mut self, unit_ms: u64) -> Result<u64, String> {
        self.read("a time such as 500ms, 20s or 1m", |text| {
            duration_ms(text, unit_ms)
        })
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        self.read("a whole number", |text| {
            whole(text).and_then(|n| T::try_from(n).ok())
        })
    }

    fn real(&mut self) -> Result<f64, String> {
        self.read("a number", |text| {
            text.parse::<f64>()
                .ok()
                .filter(|n| n.is_finite() && *n >= 0.0)
        })
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.read("true or false", |text| match text {
            "1" => Some(true),
            "0" => Some(false),
            _ if text.eq_ignore_ascii_case("true") => Some(true),
            _ if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        })
    }
}

impl Args {
    /// Reads a command line without its first word.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut args = Self::default();
        let mut words = Words {
            words,
            option: String::new(),
        };
        while let Some(word) = words.words.next() {
            let word = word
                .into_string()
                .map_err(|word| format!("{word:?}: not UTF-8"))?;
            match word.strip_prefix('-') {
                Some(option) => {
                    words.option = option.strip_prefix('-').unwrap_or(option).to_owned();
                    args.option(&mut words)?;
                }
                None if args.remote.is_none() => args.remote = Some(word),
                None => {
                    return Err(format!(
                        "{word}: the remote host was given already, as {}",
                        args.remote.unwrap_or_default()
                    ));
                }
            }
        }
        args.check()?;
        Ok(args)
    }

    fn option<I: Iterator<Item = OsString>>(&mut self, words: &mut Words<I>) -> Result<(), String> {
        let option = words.option.clone();
        match option.as_str() {
            "h" | "help" => self.help = true,
            "v" => self.version = true,
            "check" => self.check = true,
            "no_media" => self.no_media = true,
            "rtp_echo" => self.echoes = true,
            "3pcc" => self.third_party.twin = Some(words.value()?),
            "master" => self.third_party.name(&words.value()?, true)?,
            "slave" => self.third_party.name(&words.value()?, false)?,
            "slave_cfg" => self.third_party.peers_file = Some(words.path()?),
            "sf" => self.scenario = ScenarioSource::File(words.path()?),
            "sn" => self.scenario = ScenarioSource::BuiltIn(words.value()?),
            "sd" => self.dump = Some(words.value()?),
            "t" => self.transport_mode(&words.value()?)?,
            "i" => self.local_host = Some(words.value()?),
            "p" => self.local_port = Some(words.number()?),
            "mi" => self.media_host = Some(words.value()?),
            "mp" => self.media_port = words.number()?,
            "rsa" => self.send_to = Some(words.value()?),
            "bind_local" => self.binds_local = true,
            "skip_rlimit" => {}
            "sendbuffer_warn" => _ = words.boolean()?,
            "r" => self.rate = words.real()?,
            "rp" => self.rate_period_ms = words.ms(1)?.max(1),
            "rate_scale" => self.rate_scale = words.real()?,
            "rate_increase" => self.rate_increase = words.real()?,
            "rate_interval" => self.rate_interval_ms = Some(words.ms(1_000)?.max(1)),
            "rate_max" => self.rate_max = words.real()?,
            "no_rate_quit" => self.rate_quits = false,
            "m" => self.calls_max = Some(words.number()?),
            "l" => {
                self.open_calls_max = Some(words.number()?);
                if self.users.is_some() {
                    return Err("-l does not go with -users, which is that number".to_owned());
                }
            }
            "users" => {
                // As SIPp: what stands behind counts.
                self.open_calls_max = None;
                self.users = Some(words.read("a number from 0 to 1000000", |text| {
                    whole(text)
                        .and_then(|n| u32::try_from(n).ok())
                        .filter(|n| *n <= USERS_MAX)
                })?);
            }
            "max_socket" => self.sockets_max = words.number::<usize>()?.max(1),
            "max_reconnect" => {
                self.reconnects_max = words.read("a whole number, or -1", |text| match text {
                    "-1" => Some(None),
                    _ => whole(text).and_then(|n| u32::try_from(n).ok()).map(Some),
                })?;
            }
            "reconnect_close" => self.reconnect_closes = words.boolean()?,
            "reconnect_sleep" => self.reconnect_sleep_ms = words.ms(1)?,
            "d" => self.pause_ms = words.ms(1)?,
            "s" => self.service = words.value()?,
            "au" => self.auth_user = Some(words.value()?),
            "ap" => self.auth_password = words.value()?,
            "auth_uri" => self.auth_uri = Some(words.value()?),
            "key" => {
                let name = words.value()?;
                self.keys.push((name, words.value()?.into_bytes()));
            }
            "set" => {
                let name = words.value()?;
                self.set.push((name, words.value()?.into_bytes()));
            }
            "inf" => self.files.push(words.value()?),
            "infindex" => {
                let file = words.value()?;
                self.indexes.push((file, words.number()?));
            }
            "ip_field" => self.ip_field = Some(words.number()?),
            "base_cseq" => self.base_cseq = words.number()?,
            "cid_str" => self.call_id = words.value()?,
            "dynamicStart" => self.dynamic_id.0 = words.number()?,
            "dynamicMax" => self.dynamic_id.1 = words.number()?,
            "dynamicStep" => self.dynamic_id.2 = words.number()?,
            "timeout" => self.timeout_ms = Some(words.ms(1_000)?).filter(|ms| *ms > 0),
            "timeout_error" => self.timeout_error = true,
            "recv_timeout" => self.recv_timeout_ms = Some(words.ms(1)?).filter(|ms| *ms > 0),
            "send_timeout" => self.send_timeout_ms = Some(words.ms(1)?).filter(|ms| *ms > 0),
            "deadcall_wait" => self.dead_call_ms = words.ms(1)?,
            "aa" => self.answers = true,
            "nr" => self.retransmits = false,
            "nd" => {
                self.behaviors = Behaviors {
                    bye: false,
                    abort_unexpected: false,
                    ping_reply: false,
                };
            }
            "default_behaviors" => self.default_behaviors(&words.value()?)?,
            "max_retrans" => self.any_retransmissions_max = words.number()?,
            "max_invite_retrans" => self.invite_retransmissions_max = words.number()?,
            "max_non_invite_retrans" => self.retransmissions_max = words.number()?,
            "T2" => self.t2_ms = words.ms(1)?,
            "lost" => self.lost = (words.real()? / 100.0).min(1.0),
            "pause_msg_ign" => self.pauses_deaf = true,
            "callid_slash_ign" => self.slashes_plain = true,
            "tls_cert" => self.tls_cert = Some(words.path()?),
            "tls_key" => self.tls_key = Some(words.path()?),
            "tls_ca" => self.tls_ca = Some(words.path()?),
            "tls_crl" => self.tls_crl = Some(words.path()?),
            "tls_version" => self.tls_version = Some(words.value()?),
            "bg" => self.background = true,
            "nostdin" => self.reads_keys = false,
            "buff_size" => self.buffer_bytes = Some(words.number()?),
            "f" => self.screen_period_ms = words.ms(1_000)?.max(1),
            "fd" => self.stat_period_ms = words.ms(1_000)?.max(1),
            "stat_delimiter" => self.stat_delimiter = words.value()?,
            "rtt_freq" => self.rtt_frequency = words.number::<u64>()?.max(1),
            // How SIPp's own loop is tuned has no counterpart here.
            "timer_resol"
            | "max_recv_loops"
            | "max_sched_loops"
            | "watchdog_interval"
            | "watchdog_reset"
            | "watchdog_minor_threshold"
            | "watchdog_major_threshold"
            | "watchdog_major_maxtriggers"
            | "watchdog_minor_maxtriggers" => {
                words.value()?;
            }
            _ => return self.trace_option(&option, words),
        }
        Ok(())
    }

    fn trace_option<I: Iterator<Item = OsString>>(
        &mut self,
        option: &str,
        words: &mut Words<I>,
    ) -> Result<(), String> {
        let traces = &mut self.traces;
        match option {
            "trace_stat" => traces.stat = true,
            "trace_msg" => traces.messages = true,
            "trace_shortmsg" => traces.short_messages = true,
            "trace_err" => traces.errors = true,
            "trace_error_codes" => traces.error_codes = true,
            "trace_rtt" => traces.rtt = true,
            "trace_counts" => traces.counts = true,
            "trace_screen" => traces.screen = true,
            "trace_logs" => traces.logs = true,
            "stf" => traces.stat_file = Some(words.path()?),
            "message_file" => traces.message_file = Some(words.path()?),
            "shortmessage_file" => traces.short_message_file = Some(words.path()?),
            "error_file" => traces.error_file = Some(words.path()?),
            "screen_file" => traces.screen_file = Some(words.path()?),
            "log_file" => traces.log_file = Some(words.path()?),
            // Files are always begun anew.
            "message_overwrite"
            | "shortmessage_overwrite"
            | "error_overwrite"
            | "screen_overwrite"
            | "log_overwrite" => {
                if !words.boolean()? {
                    return Err(format!("-{option}: only \"true\" is covered"));
                }
            }
            _ => {
                return Err(match refused::reason(option) {
                    Some(reason) => format!("-{option} is not covered: {reason}"),
                    None => format!("-{option} is no option; -h lists them"),
                });
            }
        }
        Ok(())
    }

    fn transport_mode(&mut self, text: &str) -> Result<(), String> {
        use sip_msg::Transport::{Tcp, Tls, Udp};
        (self.transport, self.mode) = match text.to_ascii_lowercase().as_str() {
            "u1" => (Udp, Mode::One),
            "un" => (Udp, Mode::PerCall),
            "ui" => (Udp, Mode::PerAddress),
            "t1" => (Tcp, Mode::One),
            "tn" => (Tcp, Mode::PerCall),
            "l1" => (Tls, Mode::One),
            "ln" => (Tls, Mode::PerCall),
            "s1" | "sn" => return Err(format!("-t {text} is not covered: there is no SCTP")),
            "c1" | "cn" => {
                return Err(format!("-t {text} is not covered: there is no compression"));
            }
            _ => {
                return Err(format!(
                    "-t {text} is no transport: u1, un, ui, t1, tn, l1 or ln"
                ));
            }
        };
        Ok(())
    }

    /// Only what the list names is done.
    fn default_behaviors(&mut self, text: &str) -> Result<(), String> {
        let all = |on: bool| Behaviors {
            bye: on,
            abort_unexpected: on,
            ping_reply: on,
        };
        self.behaviors = all(false);
        // A comma too many means nothing.
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (name, on) = match word.strip_prefix('-') {
                Some(name) => (name, false),
                None => (word.strip_prefix('+').unwrap_or(word), true),
            };
            match name {
                "none" if name == word => self.behaviors = all(false),
                "all" => self.behaviors = all(on),
                "bye" => self.behaviors.bye = on,
                "abortunexp" => self.behaviors.abort_unexpected = on,
                "pingreply" => self.behaviors.ping_reply = on,
                _ => {
                    return Err(format!(
                        "-default_behaviors {word}: none is expected, or all, bye, abortunexp \
                         or pingreply, with + or - before it"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.mode == Mode::PerAddress && self.files.is_empty() {
            return Err("-t ui needs the local addresses: give them with -inf FILE".to_owned());
        }
        for (name, _) in &self.indexes {
            let is_it = |path: &String| InjectionFile::is_name_of(path, name);
            if !self.files.iter().any(is_it) {
                return Err(format!("-infindex {name}: give the file with -inf first"));
            }
        }
        self.third_party.check()?;
        if self.timeout_error && self.timeout_ms.is_none() {
            return Err("-timeout_error needs -timeout".to_owned());
        }
        Ok(())
    }

    /// The name that trace files begin with.
    pub(crate) fn scenario_name(&self) -> String {
        match &self.scenario {
            ScenarioSource::BuiltIn(name) => name.clone(),
            ScenarioSource::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.strip_suffix(".xml").unwrap_or(&name).to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests;
