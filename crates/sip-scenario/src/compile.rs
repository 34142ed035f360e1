//! From a scenario file to a program. What is not covered is refused with its
//! place; what SIPp passes over is passed over with a warning.

use std::collections::HashMap;

use invariant::broken;

use crate::inject::InjectionFile;
use crate::posix::Regex;
use crate::problem::{Problem, Source, Warnings};
use crate::program::{Presence, Program, Role, Scope, Step, Twin, VarRef, Variables, What};
use crate::template::Kind;
use crate::xml::{self, Element};

pub(crate) mod actions;
mod attributes;
mod distributions;
mod keywords;
mod steps;

use attributes::Attributes;

/// Reads a file.
pub type ReadFile<'a> = dyn Fn(&str) -> std::io::Result<Vec<u8>> + 'a;

/// What a scenario may refer to besides itself.
#[derive(Clone, Copy, Default)]
pub struct CompileOptions<'a> {
    /// Keywords of the user's own (`-key`): name and value.
    pub keys: &'a [(String, Vec<u8>)],
    /// The injection files (`-inf`), in order.
    pub files: &'a [InjectionFile],
    /// Global variables that are set from outside (`-set`).
    pub set: &'a [(String, Vec<u8>)],
    /// Reads a file that the scenario names (`[file name=...]`).
    pub read_file: Option<&'a ReadFile<'a>>,
    /// Whether actions with media are passed over with a warning (`-no_media`);
    /// else they are refused.
    pub no_media: bool,
    /// Whether messages go over TCP or TLS: then `<setdest>` is refused.
    pub is_stream: bool,
    /// Whether commands go to several instances by name (`-slave_cfg`).
    pub names_peers: bool,
}

impl Program {
    /// Compiles the scenario in `bytes`; `file` is its name in problems.
    pub fn compile(file: &str, bytes: &[u8], options: CompileOptions<'_>) -> Result<Self, Problem> {
        let source = Source { name: file, bytes };
        let mut warnings = Warnings::default();
        let root = xml::read(source, &mut warnings)?;
        let mut compiler = Compiler::new(source, options);
        compiler.warnings = warnings;
        compiler.declare(&root)?;
        compiler.scenario(&root)?;
        compiler.finish(&root)
    }
}

/// Steps of a scenario.
const STEPS_MAX: usize = 10_000;
/// Variables, transactions, expressions, response times of a scenario.
const NAMES_MAX: usize = 1_000;
/// Instances that commands go to.
const PEERS_MAX: usize = 16;
/// Response times are kept as bits of a word.
const RTDS_MAX: usize = 64;

/// A name that is to be resolved when all labels are known.
struct Wanted {
    step: usize,
    label: String,
    at: usize,
    is_timeout: bool,
}

struct VariableUse {
    reference: VarRef,
    uses: u32,
    at: usize,
}

pub(crate) struct Compiler<'a> {
    source: Source<'a>,
    options: CompileOptions<'a>,
    pub(crate) warnings: Warnings,
    name: String,
    steps: Vec<Step>,
    step_ats: Vec<usize>,
    labels: HashMap<String, u32>,
    wanted: Vec<Wanted>,
    variables: Variables,
    uses: HashMap<String, VariableUse>,
    transactions: Vec<String>,
    started: Vec<bool>,
    wanted_transactions: Vec<(u16, usize)>,
    rtds: Vec<String>,
    counters: Vec<String>,
    regexes: Vec<Regex>,
    /// Methods of the requests sent so far without a name for their transaction.
    methods: Vec<Vec<u8>>,
    response_time_ms: Option<Vec<u32>>,
    call_length_ms: Option<Vec<u32>>,
    /// Whether steps are hidden that do not say so (`hiderest`).
    hides: bool,
    /// The instances that commands go to, by name.
    peers: Vec<String>,
}

impl<'a> Compiler<'a> {
    fn new(source: Source<'a>, options: CompileOptions<'a>) -> Self {
        Self {
            source,
            options,
            warnings: Warnings::default(),
            name: String::new(),
            steps: Vec::new(),
            step_ats: Vec::new(),
            labels: HashMap::new(),
            wanted: Vec::new(),
            variables: Variables::default(),
            uses: HashMap::new(),
            transactions: Vec::new(),
            started: Vec::new(),
            wanted_transactions: Vec::new(),
            rtds: Vec::new(),
            counters: Vec::new(),
            regexes: Vec::new(),
            methods: Vec::new(),
            response_time_ms: None,
            call_length_ms: None,
            hides: false,
            peers: Vec::new(),
        }
    }

    pub(crate) fn warn(&mut self, at: usize, what: impl Into<String>) {
        self.warnings.add(self.source, at, what);
    }

    pub(crate) fn problem(&self, at: usize, what: impl Into<String>) -> Problem {
        self.source.problem(at, what)
    }

    /// The scopes of variables, before their first use.
    fn declare(&mut self, root: &Element) -> Result<(), Problem> {
        for element in &root.children {
            let scope = match element.name.as_str() {
                "Global" => Scope::Global,
                "User" => Scope::User,
                _ => continue,
            };
            let mut attributes = Attributes::new(self.source, element);
            let list = attributes.required("variables")?;
            attributes.finish(&mut self.warnings);
            for (name, at) in attributes::names(self.source, list)? {
                match self.uses.get_mut(&name) {
                    Some(usage) => {
                        usage.uses += 1;
                        self.warn(at, format!("the variable {name} is declared twice"));
                    }
                    None => _ = self.allot(&name, scope, at)?,
                }
            }
        }
        Ok(())
    }

    fn scenario(&mut self, root: &Element) -> Result<(), Problem> {
        if root.name != "scenario" {
            return Err(self.problem(
                root.at,
                format!(
                    "<{}> is no scenario; write <scenario name=\"...\">",
                    root.name
                ),
            ));
        }
        let mut attributes = Attributes::new(self.source, root);
        self.name = attributes
            .take("name")
            .map(|a| String::from_utf8_lossy(&a.value).into_owned())
            .unwrap_or_default();
        attributes.finish(&mut self.warnings);
        self.no_cdata(root);
        for element in &root.children {
            self.child(element)?;
        }
        Ok(())
    }

    fn child(&mut self, element: &Element) -> Result<(), Problem> {
        match element.name.as_str() {
            "send" => self.send(element),
            "recv" => self.recv(element),
            "pause" => self.pause(element),
            "timewait" => self.timewait(element),
            "nop" => self.nop(element),
            "label" => self.label(element),
            "sendCmd" => self.send_command(element),
            "recvCmd" => self.receive_command(element),
            "Global" | "User" => {
                self.leaf(element);
                Ok(())
            }
            "Reference" => self.reference(element),
            "ResponseTimeRepartition" => {
                let classes = self.classes(element)?;
                self.response_time_ms = Some(classes);
                Ok(())
            }
            "CallLengthRepartition" => {
                let classes = self.classes(element)?;
                self.call_length_ms = Some(classes);
                Ok(())
            }
            "DefaultMessage" => {
                let what = "<DefaultMessage> is passed over: what is sent without being in \
                            the scenario cannot be changed";
                self.warn(element.at, what);
                Ok(())
            }
            name @ "init" => Err(self.problem(
                element.at,
                format!("<{name}> is not covered; set variables with -set, or in a <nop>"),
            )),
            name => Err(self.problem(element.at, format!("<{name}> is no step of a scenario"))),
        }
    }

    fn finish(mut self, root: &Element) -> Result<Program, Problem> {
        for wanted in std::mem::take(&mut self.wanted) {
            let Some(&target) = self.labels.get(&wanted.label) else {
                let what = format!("there is no <label id=\"{}\"/>", wanted.label);
                return Err(self.problem(wanted.at, what));
            };
            let Some(step) = self.steps.get_mut(wanted.step) else {
                broken!("a label is wanted by a step");
                continue;
            };
            if wanted.is_timeout {
                step.on_timeout = Some(target);
            } else {
                step.next = Some(target);
            }
        }
        for (transaction, at) in &self.wanted_transactions {
            let index = usize::from(*transaction);
            if self.started.get(index) != Some(&true) {
                let name = self.transactions.get(index).cloned().unwrap_or_default();
                let what = format!("no <send> has start_txn=\"{name}\"");
                return Err(self.problem(*at, what));
            }
        }
        self.check_optionals()?;
        self.check_uses()?;
        let Some((role, sends_first)) = self.role() else {
            return Err(self.problem(root.at, "the scenario neither sends nor expects a message"));
        };
        for (name, _) in self.options.set {
            if !self.variables.global.contains(name) {
                let what = format!(
                    "-set {name}: there is no such global variable; \
                     write <Global variables=\"{name}\"/>"
                );
                return Err(self.problem(root.at, what));
            }
        }
        Ok(Program {
            name: self.name,
            warnings: self.warnings.finish(),
            role,
            sends_first,
            twin: twin(&self.steps),
            peers: self.peers,
            steps: self.steps,
            variables: self.variables,
            transactions: self.transactions,
            rtds: self.rtds,
            counters: self.counters,
            response_time_ms: self.response_time_ms.unwrap_or_default(),
            call_length_ms: self.call_length_ms.unwrap_or_default(),
            regexes: self.regexes,
        })
    }

    /// Who begins calls, and whether the first SIP message is one that is sent.
    fn role(&self) -> Option<(Role, bool)> {
        let sends_first = self.steps.iter().find_map(|step| match step.what {
            What::Send(_) => Some(true),
            What::Recv(_) => Some(false),
            _ => None,
        })?;
        let role = self.steps.iter().find_map(|step| match step.what {
            What::Send(_) | What::SendCommand(_) => Some(Role::Client),
            What::Recv(_) => Some(Role::Server),
            What::ReceiveCommand(_) => Some(Role::Commanded),
            _ => None,
        })?;
        Some((role, sends_first))
    }

    /// An optional message must have a mandatory one behind it that ends the
    /// waiting, before anything else is done.
    fn check_optionals(&self) -> Result<(), Problem> {
        let mut optional = None;
        for (step, &at) in self.steps.iter().zip(&self.step_ats) {
            match (&step.what, optional) {
                (What::Recv(recv), _) if recv.optional == Presence::Mandatory => optional = None,
                (What::ReceiveCommand(recv), _) if !recv.is_optional => optional = None,
                (What::Recv(_) | What::ReceiveCommand(_), None) => optional = Some(at),
                (What::Recv(_) | What::ReceiveCommand(_), Some(_)) | (_, None) => {}
                (_, Some(at)) => {
                    return Err(self.problem(
                        at,
                        "an optional <recv> without a mandatory <recv> behind it, \
                         so that nothing says when the waiting is over",
                    ));
                }
            }
        }
        Ok(())
    }

    /// SIPp refuses a variable that is named only once: it is a slip of the pen.
    fn check_uses(&self) -> Result<(), Problem> {
        let once = self
            .uses
            .iter()
            .filter(|(name, usage)| usage.uses < 2 && name.as_str() != "_")
            .min_by_key(|(_, usage)| usage.at);
        match once {
            Some((name, usage)) => Err(self.problem(
                usage.at,
                format!(
                    "the variable {name} is used only once; \
                     if that is meant, write <Reference variables=\"{name}\"/>"
                ),
            )),
            None => Ok(()),
        }
    }

    fn leaf(&mut self, element: &Element) {
        self.no_cdata(element);
        for child in &element.children {
            self.warn(
                child.at,
                format!(
                    "<{}> has no meaning inside <{}> and is passed over",
                    child.name, element.name
                ),
            );
        }
    }

    fn no_cdata(&mut self, element: &Element) {
        if let Some(cdata) = &element.cdata {
            self.warn(
                cdata.at,
                format!("a message in <{}> is passed over", element.name),
            );
        }
    }

    fn label(&mut self, element: &Element) -> Result<(), Problem> {
        let mut attributes = Attributes::new(self.source, element);
        let id = attributes.required("id")?;
        attributes.finish(&mut self.warnings);
        self.leaf(element);
        let name = String::from_utf8_lossy(&id.value).into_owned();
        if name == "_unexp.main" {
            let what = "the label _unexp.main is not covered: what nobody expects leads nowhere";
            return Err(self.problem(id.value_at, what));
        }
        let next = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        if self.labels.insert(name.clone(), next).is_some() {
            return Err(self.problem(id.value_at, format!("the label {name} is here twice")));
        }
        Ok(())
    }

    fn reference(&mut self, element: &Element) -> Result<(), Problem> {
        let mut attributes = Attributes::new(self.source, element);
        let list = attributes.required("variables")?;
        attributes.finish(&mut self.warnings);
        self.leaf(element);
        for (name, at) in attributes::names(self.source, list)? {
            self.variable(&name, at)?;
        }
        Ok(())
    }

    fn classes(&mut self, element: &Element) -> Result<Vec<u32>, Problem> {
        let mut attributes = Attributes::new(self.source, element);
        let list = attributes.required("value")?;
        attributes.finish(&mut self.warnings);
        self.leaf(element);
        let text = String::from_utf8_lossy(&list.value);
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let read: Result<Vec<u32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
        let Ok(mut classes) = read else {
            let what = "write growing numbers of milliseconds with commas between them";
            return Err(self.problem(list.value_at, what));
        };
        if !classes.is_sorted_by(|a, b| a < b) {
            self.warn(
                list.value_at,
                "the numbers do not grow; each counts once, in order",
            );
            classes.sort_unstable();
            classes.dedup();
        }
        Ok(classes)
    }

    /// The variable of this name; one that is not declared belongs to the call.
    pub(crate) fn variable(&mut self, name: &str, at: usize) -> Result<VarRef, Problem> {
        if let Some(usage) = self.uses.get_mut(name) {
            usage.uses += 1;
            return Ok(usage.reference);
        }
        self.allot(name, Scope::Call, at)
    }

    fn allot(&mut self, name: &str, scope: Scope, at: usize) -> Result<VarRef, Problem> {
        if name.is_empty() || name.contains(['$', ',']) {
            return Err(self.problem(
                at,
                format!("{name:?} is no name of a variable: it is empty or holds $ or a comma"),
            ));
        }
        let names = match scope {
            Scope::Call => &mut self.variables.call,
            Scope::User => &mut self.variables.user,
            Scope::Global => &mut self.variables.global,
        };
        let index = index_of(self.source, names.len(), at)?;
        names.push(name.to_owned());
        let reference = VarRef { scope, index };
        let usage = VariableUse {
            reference,
            uses: 1,
            at,
        };
        self.uses.insert(name.to_owned(), usage);
        Ok(reference)
    }

    fn transaction(&mut self, name: &str, at: usize) -> Result<u16, Problem> {
        let known = self.transactions.iter().position(|known| known == name);
        let index = known.unwrap_or(self.transactions.len());
        let number = index_of(self.source, index, at)?;
        if known.is_none() {
            self.transactions.push(name.to_owned());
            self.started.push(false);
        }
        Ok(number)
    }

    fn rtd(&mut self, name: &str, at: usize) -> Result<u8, Problem> {
        let name = if name == "true" { "1" } else { name };
        let known = self.rtds.iter().position(|known| known == name);
        let index = known.unwrap_or(self.rtds.len());
        if index >= RTDS_MAX {
            return Err(self.problem(at, format!("more than {RTDS_MAX} response times")));
        }
        if known.is_none() {
            self.rtds.push(name.to_owned());
        }
        Ok(u8::try_from(index).unwrap_or(0))
    }

    fn counter(&mut self, name: &str, at: usize) -> Result<u16, Problem> {
        let known = self.counters.iter().position(|known| known == name);
        let index = known.unwrap_or(self.counters.len());
        let number = index_of(self.source, index, at)?;
        if known.is_none() {
            self.counters.push(name.to_owned());
        }
        Ok(number)
    }

    pub(crate) fn regex(
        &mut self,
        pattern: &[u8],
        ignore_case: bool,
        at: usize,
    ) -> Result<u16, Problem> {
        let number = index_of(self.source, self.regexes.len(), at)?;
        let regex = Regex::new(pattern, ignore_case).map_err(|(offset, what)| {
            self.problem(
                at + offset,
                format!(
                    "the regular expression \"{}\": {what}",
                    String::from_utf8_lossy(pattern)
                ),
            )
        })?;
        self.regexes.push(regex);
        Ok(number)
    }

    pub(crate) fn file(&self, name: &str, at: usize) -> Result<u16, Problem> {
        let known = self
            .options
            .files
            .iter()
            .position(|file| file.is_named(name));
        match known {
            Some(index) => index_of(self.source, index, at),
            None => Err(self.problem(
                at,
                format!("no injection file {name:?} was given; give it with -inf {name}"),
            )),
        }
    }

    fn push_step(&mut self, step: Step, at: usize) -> Result<(), Problem> {
        if self.steps.len() >= STEPS_MAX {
            return Err(self.problem(at, format!("more than {STEPS_MAX} steps")));
        }
        // Responses to a transaction with a name belong to those who name it.
        if let What::Send(send) = &step.what
            && let Kind::Request(method) = &send.kind
            && (send.start_txn, send.ack_txn) == (None, None)
            && !self.methods.contains(method)
        {
            self.methods.push(method.clone());
        }
        self.steps.push(step);
        self.step_ats.push(at);
        Ok(())
    }
}

/// What the first command is, if there is one.
fn twin(steps: &[Step]) -> Option<Twin> {
    let first = steps
        .iter()
        .position(|step| matches!(step.what, What::SendCommand(_) | What::ReceiveCommand(_)))?;
    steps.get(first).map(|step| match step.what {
        What::SendCommand(_) => Twin::Tells,
        _ => Twin::IsTold,
    })
}

/// An index into a bounded list.
fn index_of(source: Source<'_>, index: usize, at: usize) -> Result<u16, Problem> {
    match u16::try_from(index) {
        Ok(number) if index < NAMES_MAX => Ok(number),
        _ => Err(source.problem(at, format!("more than {NAMES_MAX} of this kind"))),
    }
}

#[cfg(test)]
mod tests;
