//! A scenario, compiled: steps that refer to each other by number.

use crate::distribution::Distribution;
use crate::posix::Regex;
use crate::problem::Problem;
use crate::template::{Kind, Template};

/// Who begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The scenario begins with a message that it sends.
    Client,
    /// It begins with one that it expects.
    Server,
    /// It begins with a command of another instance (`<recvCmd>`).
    Commanded,
}

/// What the first command of a scenario is, by which SIPp tells which of two
/// instances connects to the other (`-3pcc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// One that it sends: it connects.
    Tells,
    /// One that it expects: it listens.
    IsTold,
}

/// A compiled scenario.
#[derive(Debug)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) role: Role,
    pub(crate) sends_first: bool,
    pub(crate) twin: Option<Twin>,
    /// The instances that commands go to, by name.
    pub(crate) peers: Vec<String>,
    pub(crate) steps: Vec<Step>,
    pub(crate) variables: Variables,
    pub(crate) transactions: Vec<String>,
    /// Names of the response times, as in `rtd="NAME"`.
    pub(crate) rtds: Vec<String>,
    pub(crate) counters: Vec<String>,
    pub(crate) response_time_ms: Vec<u32>,
    pub(crate) call_length_ms: Vec<u32>,
    pub(crate) regexes: Vec<Regex>,
}

/// The names of variables, by scope.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    pub(crate) call: Vec<String>,
    pub(crate) user: Vec<String>,
    pub(crate) global: Vec<String>,
}

/// A variable, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VarRef {
    pub(crate) scope: Scope,
    pub(crate) index: u16,
}

/// How long a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Call,
    User,
    Global,
}

/// A step: what SIPp calls a message, pauses and nops included.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) next: Option<u32>,
    /// Where the call goes on when what is waited for does not come in time.
    pub(crate) on_timeout: Option<u32>,
    pub(crate) test: Option<VarRef>,
    /// With which probability `next` is followed.
    pub(crate) chance: Option<f64>,
    pub(crate) condexec: Option<VarRef>,
    pub(crate) condexec_inverse: bool,
    pub(crate) counter: Option<u16>,
    pub(crate) start_rtd: Option<u8>,
    pub(crate) stop_rtd: Option<u8>,
    pub(crate) repeat_rtd: bool,
    pub(crate) crlf: bool,
    pub(crate) hide: bool,
    pub(crate) display: Option<String>,
    /// Which share of its messages is lost.
    pub(crate) lost: Option<f64>,
    pub(crate) actions: Vec<Action>,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum What {
    Send(Box<SendStep>),
    Recv(Box<RecvStep>),
    SendCommand(Box<CommandStep>),
    ReceiveCommand(ReceiveCommandStep),
    Pause(Pause),
    Nop,
}

#[derive(Debug)]
pub(crate) struct SendStep {
    pub(crate) template: Template,
    pub(crate) kind: Kind,
    pub(crate) retrans_ms: Option<u32>,
    pub(crate) start_txn: Option<u16>,
    pub(crate) ack_txn: Option<u16>,
}

/// A command to another instance.
#[derive(Debug)]
pub(crate) struct CommandStep {
    pub(crate) template: Template,
    /// To which of the program's peers; `None` is the only one.
    pub(crate) dest: Option<u16>,
}

/// A command of another instance.
#[derive(Debug)]
pub(crate) struct ReceiveCommandStep {
    /// Who must have sent it.
    pub(crate) src: Option<Vec<u8>>,
    pub(crate) is_optional: bool,
}

/// How often an expected message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Mandatory,
    Optional,
    /// Optional, and also where the call is at another step.
    Global,
}

#[derive(Debug)]
pub(crate) struct RecvStep {
    pub(crate) expects: Expects,
    pub(crate) optional: Presence,
    pub(crate) keeps_routes: bool,
    pub(crate) keeps_challenge: bool,
    pub(crate) timeout_ms: Option<u32>,
    /// Whether the call goes on behind it.
    pub(crate) advances: bool,
    pub(crate) response_txn: Option<u16>,
    /// Methods of the requests sent before it in the file without a name for their
    /// transaction: those to which a response may belong where none is named.
    pub(crate) methods: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(crate) enum Expects {
    Response(u16),
    Request(Vec<u8>),
    /// A request whose method matches this expression.
    RequestMatching(u16, String),
    /// Nothing that could come.
    Nothing,
}

#[derive(Debug)]
pub(crate) enum Pause {
    /// As long as `-d` says.
    Default,
    Variable(VarRef),
    Of(Distribution),
    /// The call is over, but its retransmissions are answered this long; `None` is as
    /// long as `-d` says.
    TimeWait(Option<Distribution>),
}

/// A number, or a variable that holds one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Number(f64),
    Variable(VarRef),
}

/// Whether the call fails by the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    No,
    /// It fails if it is not so.
    MustBe,
    /// It fails if it is so.
    MustNotBe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Assign,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Where an expression is looked for.
#[derive(Debug)]
pub(crate) enum SearchIn {
    Message,
    Body,
    Header {
        name: Vec<u8>,
        ignore_case: bool,
        /// Which one, counted from 1.
        occurrence: u32,
        at_line_start: bool,
    },
    Variable(VarRef),
}

#[derive(Debug)]
pub(crate) enum Action {
    Ereg {
        regex: u16,
        search_in: SearchIn,
        check: Check,
        assign_to: Vec<VarRef>,
    },
    Log(Template),
    Warning(Template),
    Error(Template),
    AssignText(VarRef, Template),
    Arithmetic(Arithmetic, VarRef, Operand),
    Sample(VarRef, Distribution),
    ToDouble(VarRef, VarRef),
    Test {
        to: Option<VarRef>,
        left: VarRef,
        compare: Compare,
        right: Operand,
        check: Check,
    },
    Strcmp {
        to: Option<VarRef>,
        left: VarRef,
        right: TextOperand,
        check: Check,
    },
    Trim(VarRef),
    UrlEncode(VarRef),
    UrlDecode(VarRef),
    Lookup {
        to: VarRef,
        file: FileRef,
        key: Template,
    },
    /// Where the call sends to from now on.
    SetDestination {
        host: Template,
        port: Template,
        protocol: Template,
    },
    /// Whether the request that came bears the digest of a user's password.
    VerifyAuth {
        to: VarRef,
        user: Template,
        password: Template,
    },
    /// The number of the step.
    Index(VarRef),
    Jump(Operand),
    TimeOfDay {
        seconds: VarRef,
        microseconds: VarRef,
    },
    Command(Template),
    StopNow,
    StopGracefully,
    StopCall,
}

/// An injection file: by number, or by a name that the call makes.
#[derive(Debug)]
pub(crate) enum FileRef {
    Number(u16),
    Named(Template),
}

#[derive(Debug)]
pub(crate) enum TextOperand {
    Text(Vec<u8>),
    Variable(VarRef),
}

impl Program {
    /// The scenario's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What SIPp passes over without a word, and so do we, in the order of the file.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Who begins.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether the first SIP message is one that is sent, so that there must be
    /// a remote host.
    pub fn sends_first(&self) -> bool {
        self.sends_first
    }

    /// What the first command to or of another instance is, if there is one.
    pub fn twin(&self) -> Option<Twin> {
        self.twin
    }

    /// The instances that commands go to by name (`<sendCmd dest=...>`).
    pub fn peers(&self) -> &[String] {
        &self.peers
    }

    /// How long all pauses take together in 99 of 100 calls, in milliseconds. Those
    /// without a time of their own are `default_ms` long; those with a variable's count as
    /// nothing.
    pub fn pauses_ms(&self, default_ms: u64) -> u64 {
        let pauses = self.steps.iter().filter_map(|step| match &step.what {
            What::Pause(Pause::Of(distribution) | Pause::TimeWait(Some(distribution))) => {
                Some(distribution.usual_max())
            }
            What::Pause(Pause::Default | Pause::TimeWait(None)) => Some(default_ms as f64),
            _ => None,
        });
        // What is no number, or below zero, is nothing.
        pauses.map(|ms| ms as u64).fold(0, u64::saturating_add)
    }

    /// Whether a step says of itself which share of its messages is lost (`lost=...`).
    pub fn loses(&self) -> bool {
        self.steps.iter().any(|step| step.lost.is_some())
    }

    /// How many variables each user has (`<User variables=...>`).
    pub fn user_variable_count(&self) -> usize {
        self.variables.user.len()
    }

    /// How many steps there are, labels not counted.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// How many actions a step has.
    pub fn action_count(&self, index: usize) -> usize {
        self.steps.get(index).map_or(0, |step| step.actions.len())
    }

    /// The names of the response times, in the order of their numbers.
    pub fn rtd_names(&self) -> &[String] {
        &self.rtds
    }

    /// The names of the scenario's own counters.
    pub fn counter_names(&self) -> &[String] {
        &self.counters
    }

    /// The upper ends of the classes of response times, in milliseconds.
    pub fn response_time_classes_ms(&self) -> &[u32] {
        &self.response_time_ms
    }

    /// The upper ends of the classes of call lengths, in milliseconds.
    pub fn call_length_classes_ms(&self) -> &[u32] {
        &self.call_length_ms
    }

    /// How a step is shown to people.
    pub fn step_label(&self, index: usize) -> StepLabel<'_> {
        let Some(step) = self.steps.get(index) else {
            return StepLabel {
                kind: StepKind::Nop,
                name: String::new(),
                is_hidden: true,
                crlf: false,
                starts_rtd: None,
                stops_rtd: None,
                retransmits: false,
                display: None,
            };
        };
        let (kind, name, retransmits) = match &step.what {
            What::Send(send) => {
                let name = match &send.kind {
                    Kind::Request(method) => String::from_utf8_lossy(method).into_owned(),
                    Kind::Response => send.status(),
                };
                (StepKind::Send, name, send.retrans_ms.is_some())
            }
            What::Recv(recv) => {
                let name = match &recv.expects {
                    Expects::Response(code) => code.to_string(),
                    Expects::Request(method) => String::from_utf8_lossy(method).into_owned(),
                    Expects::RequestMatching(_, text) => text.clone(),
                    Expects::Nothing => "nothing".to_owned(),
                };
                (StepKind::Recv, name, false)
            }
            What::SendCommand(_) => (StepKind::SendCommand, "[ Command ]".to_owned(), false),
            What::ReceiveCommand(_) => (StepKind::ReceiveCommand, "[ Command ]".to_owned(), false),
            What::Pause(_) => (StepKind::Pause, "Pause".to_owned(), false),
            What::Nop => (StepKind::Nop, "NOP".to_owned(), false),
        };
        StepLabel {
            kind,
            name,
            is_hidden: step.hide,
            crlf: step.crlf,
            starts_rtd: step.start_rtd.and_then(|n| self.rtd_name(n)),
            stops_rtd: step.stop_rtd.and_then(|n| self.rtd_name(n)),
            retransmits,
            display: step.display.as_deref(),
        }
    }

    fn rtd_name(&self, index: u8) -> Option<&str> {
        self.rtds.get(usize::from(index)).map(String::as_str)
    }
}

impl SendStep {
    /// The status code of a response, as it is written in the scenario.
    fn status(&self) -> String {
        let first = match self.template.parts.first() {
            Some(crate::template::Part::Text(span)) => self.template.bytes(span),
            _ => b"",
        };
        let code = first.strip_prefix(b"SIP/2.0 ").unwrap_or_default();
        code.iter()
            .take_while(|b| b.is_ascii_digit())
            .map(|&b| char::from(b))
            .collect()
    }
}

/// What a step is, for those who show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Sends a message.
    Send,
    /// Expects a message.
    Recv,
    /// Sends a command to another instance.
    SendCommand,
    /// Expects a command of another instance.
    ReceiveCommand,
    /// Waits.
    Pause,
    /// Only acts.
    Nop,
}

/// How a step is shown to people.
#[derive(Clone, Debug)]
pub struct StepLabel<'a> {
    /// What it is.
    pub kind: StepKind,
    /// The method or the status code.
    pub name: String,
    /// Whether the scenario wants it left out.
    pub is_hidden: bool,
    /// Whether an empty line follows.
    pub crlf: bool,
    /// The response time that begins here.
    pub starts_rtd: Option<&'a str>,
    /// The response time that ends here.
    pub stops_rtd: Option<&'a str>,
    /// Whether the message is sent again until it is answered.
    pub retransmits: bool,
    /// What the scenario wants shown.
    pub display: Option<&'a str>,
}
