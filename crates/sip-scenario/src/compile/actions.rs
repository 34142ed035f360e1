//! `<action>` and what stands in it.

use crate::problem::Problem;
use crate::program::{
    Action, Arithmetic, Check, Compare, FileRef, Operand, SearchIn, TextOperand, VarRef,
};
use crate::template::Template;
use crate::xml::{Attribute, Element};

use super::Compiler;
use super::attributes::{self, Attributes};

impl Compiler<'_> {
    /// The actions of a step, in order.
    pub(super) fn actions(&mut self, step: &Element) -> Result<Vec<Action>, Problem> {
        let mut actions = Vec::new();
        // As SIPp: only the first element inside a step is looked at.
        let (first, others) = match step.children.split_first() {
            Some((first, others)) if first.name == "action" => (first, others),
            _ => {
                self.pass_over(&step.children, step);
                return Ok(actions);
            }
        };
        self.pass_over(others, step);
        Attributes::new(self.source, first).finish(&mut self.warnings);
        self.no_cdata(first);
        for element in &first.children {
            self.leaf(element);
            let mut attributes = Attributes::new(self.source, element);
            let action = self.action(element, &mut attributes)?;
            attributes.finish(&mut self.warnings);
            actions.extend(action);
        }
        Ok(actions)
    }

    fn pass_over(&mut self, children: &[Element], step: &Element) {
        for child in children {
            self.warn(
                child.at,
                format!(
                    "<{}> inside <{}> is passed over: only an <action> that comes first counts",
                    child.name, step.name
                ),
            );
        }
    }

    /// An action; `None` for one that is passed over.
    fn action(
        &mut self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Option<Action>, Problem> {
        Ok(Some(match element.name.as_str() {
            "ereg" => self.ereg(attributes)?,
            "log" => {
                let message = attributes.required("message")?;
                Action::Log(self.text(message)?)
            }
            "warning" => {
                let message = attributes.required("message")?;
                Action::Warning(self.text(message)?)
            }
            "error" => {
                let message = attributes.required("message")?;
                Action::Error(self.text(message)?)
            }
            "assignstr" => {
                let to = self.target(attributes)?;
                let value = attributes.required("value")?;
                Action::AssignText(to, self.text(value)?)
            }
            "assign" => self.arithmetic(Arithmetic::Assign, element, attributes)?,
            "add" => self.arithmetic(Arithmetic::Add, element, attributes)?,
            "subtract" => self.arithmetic(Arithmetic::Subtract, element, attributes)?,
            "multiply" => self.arithmetic(Arithmetic::Multiply, element, attributes)?,
            "divide" => self.arithmetic(Arithmetic::Divide, element, attributes)?,
            "sample" => {
                let to = self.target(attributes)?;
                match self.distribution(element, attributes)? {
                    Some(distribution) => Action::Sample(to, distribution),
                    None => {
                        let what = "<sample> needs distribution=\"...\"";
                        return Err(self.problem(element.at, what));
                    }
                }
            }
            "todouble" => {
                let to = self.target(attributes)?;
                let from = self.named(attributes, "variable")?;
                Action::ToDouble(to, from)
            }
            "test" => self.test(element, attributes)?,
            "strcmp" => self.strcmp(element, attributes)?,
            "trim" => Action::Trim(self.target(attributes)?),
            "urlencode" => Action::UrlEncode(self.named(attributes, "variable")?),
            "urldecode" => Action::UrlDecode(self.named(attributes, "variable")?),
            "lookup" => self.lookup(attributes)?,
            "jump" => Action::Jump(self.operand(element, attributes, "variable")?),
            "gettimeofday" => self.time_of_day(attributes)?,
            "setdest" => self.destination(element, attributes)?,
            "verifyauth" => Action::VerifyAuth {
                to: self.target(attributes)?,
                user: self.required_text(attributes, "username")?,
                password: self.required_text(attributes, "password")?,
            },
            "index" => Action::Index(self.target(attributes)?),
            "exec" => return self.exec(element, attributes),
            "rtp_echo" => {
                attributes.take("value");
                if let Some((name, at)) = attributes.text("variable") {
                    self.variable(name.trim(), at)?;
                }
                self.media(element.at, "<rtp_echo>")?;
                return Ok(None);
            }
            name @ ("insert" | "replace" | "closecon" | "pauserestore") => {
                return Err(self.problem(element.at, format!("<{name}> is not covered")));
            }
            name => {
                return Err(self.problem(element.at, format!("<{name}> is no action")));
            }
        }))
    }

    /// What is known of a destination before a call names it is looked at here.
    fn destination(
        &mut self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Action, Problem> {
        if self.options.is_stream {
            let what = "<setdest> is not covered over TCP and TLS";
            return Err(self.problem(element.at, what));
        }
        let fits = |template: &Template, fits: &dyn Fn(&str) -> bool| {
            template
                .literal()
                .is_none_or(|text| std::str::from_utf8(text).is_ok_and(fits))
        };
        let host = self.required_text(attributes, "host")?;
        if !fits(&host, &|host| destination_ip(host).is_some()) {
            let what = "the host of <setdest> is an IP address: names are not looked up during a \
                        run";
            return Err(self.problem(element.at, what));
        }
        let port = self.required_text(attributes, "port")?;
        if !fits(&port, &|port| destination_port(port).is_some()) {
            return Err(self.problem(element.at, "the port of <setdest> is a number"));
        }
        let protocol = self.required_text(attributes, "protocol")?;
        if !fits(&protocol, &|protocol| protocol.eq_ignore_ascii_case("udp")) {
            let what = "the protocol of <setdest> is that of the run, UDP";
            return Err(self.problem(element.at, what));
        }
        Ok(Action::SetDestination {
            host,
            port,
            protocol,
        })
    }

    fn required_text(
        &mut self,
        attributes: &mut Attributes<'_>,
        name: &str,
    ) -> Result<Template, Problem> {
        let attribute = attributes.required(name)?;
        self.text(attribute)
    }

    /// Passes over an action with media, or refuses it.
    fn media(&mut self, at: usize, what: &str) -> Result<(), Problem> {
        if !self.options.no_media {
            return Err(self.problem(
                at,
                format!(
                    "{what} is not covered: this generator sends no media; \
                     -no_media plays the scenario without it"
                ),
            ));
        }
        self.warn(at, format!("{what} is passed over (-no_media)"));
        Ok(())
    }

    fn ereg(&mut self, attributes: &mut Attributes<'_>) -> Result<Action, Problem> {
        let pattern = attributes.required("regexp")?;
        let ignore_case = attributes.flag("case_indep")?;
        let at_line_start = attributes.flag("start_line")?;
        let occurrence = match attributes.whole("occurrence")? {
            Some(n) => Some(n),
            // Many scenarios spell it so.
            None => attributes.whole("occurence")?,
        };
        let header = attributes.take("header");
        let variable = attributes.take("variable");
        let place = attributes.take("search_in");
        let search_in = match (
            place.map_or(&b"msg"[..], |p| p.value.as_slice()),
            header,
            variable,
        ) {
            (b"msg", _, _) => SearchIn::Message,
            (b"body", _, _) => SearchIn::Body,
            (b"hdr", Some(header), _) if !header.value.is_empty() => SearchIn::Header {
                name: header.value.clone(),
                ignore_case,
                occurrence: occurrence.unwrap_or(1).max(1),
                at_line_start,
            },
            (b"var", _, Some(variable)) => {
                let name = String::from_utf8_lossy(&variable.value).into_owned();
                SearchIn::Variable(self.variable(name.trim(), variable.value_at)?)
            }
            (b"hdr", _, _) => {
                return Err(self.problem(
                    place.map_or(0, |p| p.at),
                    "search_in=\"hdr\" needs header=\"NAME:\"",
                ));
            }
            (b"var", _, _) => {
                return Err(self.problem(
                    place.map_or(0, |p| p.at),
                    "search_in=\"var\" needs variable=\"NAME\"",
                ));
            }
            _ => {
                return Err(self.problem(
                    place.map_or(0, |p| p.value_at),
                    "search_in is \"msg\", \"hdr\", \"body\" or \"var\"",
                ));
            }
        };
        self.misplaced(&search_in, header, variable);
        let check = self.check(attributes)?;
        let assign_to = match attributes.take("assign_to") {
            Some(list) => self.targets(list)?,
            None => Vec::new(),
        };
        // `case_indep` is about the header's name; SIPp never ignores case in the
        // expression.
        let regex = self.regex(&pattern.value, false, pattern.value_at)?;
        let groups = self
            .regexes
            .get(usize::from(regex))
            .map_or(0, crate::posix::Regex::groups);
        if let (Some(list), true) = (attributes.take("assign_to"), assign_to.len() > groups + 1) {
            self.warn(
                list.value_at,
                format!(
                    "{} variables for the match and {groups} parenthesised parts of it: \
                     the rest stay as they are",
                    assign_to.len()
                ),
            );
        }
        Ok(Action::Ereg {
            regex,
            search_in,
            check,
            assign_to,
        })
    }

    /// Tells which of `header` and `variable` the place to search has no use for.
    fn misplaced(
        &mut self,
        search_in: &SearchIn,
        header: Option<&Attribute>,
        variable: Option<&Attribute>,
    ) {
        let is_header = matches!(search_in, SearchIn::Header { .. });
        let is_variable = matches!(search_in, SearchIn::Variable(_));
        for attribute in [
            header.filter(|_| !is_header),
            variable.filter(|_| !is_variable),
        ]
        .into_iter()
        .flatten()
        {
            self.warn(
                attribute.at,
                format!("{} has no meaning for this search_in", attribute.name),
            );
        }
    }

    fn arithmetic(
        &mut self,
        how: Arithmetic,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Action, Problem> {
        let to = self.target(attributes)?;
        let operand = self.operand(element, attributes, "variable")?;
        if let (Arithmetic::Divide, Operand::Number(0.0)) = (how, operand) {
            return Err(self.problem(element.at, "a division by zero"));
        }
        Ok(Action::Arithmetic(how, to, operand))
    }

    fn test(
        &mut self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Action, Problem> {
        let left = self.named(attributes, "variable")?;
        let compare = attributes.required("compare")?;
        let how = match compare.value.as_slice() {
            b"equal" => Compare::Equal,
            b"not_equal" => Compare::NotEqual,
            b"greater_than" => Compare::Greater,
            b"less_than" => Compare::Less,
            b"greater_than_equal" => Compare::GreaterEqual,
            b"less_than_equal" => Compare::LessEqual,
            _ => {
                return Err(self.problem(
                    compare.value_at,
                    "compare is \"equal\", \"not_equal\", \"greater_than\", \"less_than\", \
                     \"greater_than_equal\" or \"less_than_equal\"",
                ));
            }
        };
        let right = self.operand(element, attributes, "variable2")?;
        let check = self.check(attributes)?;
        let to = self.optional_target(attributes)?;
        Ok(Action::Test {
            to,
            left,
            compare: how,
            right,
            check,
        })
    }

    fn strcmp(
        &mut self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Action, Problem> {
        let left = self.named(attributes, "variable")?;
        let right = match (attributes.take("variable2"), attributes.take("value")) {
            (Some(name), None) => {
                let text = String::from_utf8_lossy(&name.value).into_owned();
                TextOperand::Variable(self.variable(text.trim(), name.value_at)?)
            }
            (None, Some(value)) => TextOperand::Text(value.value.clone()),
            _ => {
                return Err(self.problem(
                    element.at,
                    "<strcmp> needs either value=\"...\" or variable2=\"...\"",
                ));
            }
        };
        let check = self.check(attributes)?;
        let to = self.optional_target(attributes)?;
        Ok(Action::Strcmp {
            to,
            left,
            right,
            check,
        })
    }

    fn lookup(&mut self, attributes: &mut Attributes<'_>) -> Result<Action, Problem> {
        let to = self.target(attributes)?;
        let file = attributes.required("file")?;
        let name = self.text(file)?;
        let key = attributes.required("key")?;
        let key = self.text(key)?;
        let file = match name.literal() {
            None => FileRef::Named(name),
            Some(literal) => {
                let name = String::from_utf8_lossy(literal).into_owned();
                let number = self.file(&name, file.value_at)?;
                let files = self.options.files;
                if !files
                    .get(usize::from(number))
                    .is_some_and(|file| file.is_indexed())
                {
                    return Err(self.problem(
                        file.value_at,
                        format!("{name} has no index; give one with -infindex {name} FIELD"),
                    ));
                }
                FileRef::Number(number)
            }
        };
        Ok(Action::Lookup { to, file, key })
    }

    fn time_of_day(&mut self, attributes: &mut Attributes<'_>) -> Result<Action, Problem> {
        let list = attributes.required("assign_to")?;
        match self.targets(list)?.as_slice() {
            [seconds, microseconds] => Ok(Action::TimeOfDay {
                seconds: *seconds,
                microseconds: *microseconds,
            }),
            _ => Err(self.problem(
                list.value_at,
                "<gettimeofday> needs two variables: for the seconds and the microseconds",
            )),
        }
    }

    fn exec(
        &mut self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Option<Action>, Problem> {
        if let Some(command) = attributes.take("command") {
            return Ok(Some(Action::Command(self.text(command)?)));
        }
        if let Some(command) = attributes.take("int_cmd") {
            return Ok(Some(match command.value.as_slice() {
                b"stop_now" => Action::StopNow,
                b"stop_gracefully" => Action::StopGracefully,
                b"stop_call" => Action::StopCall,
                _ => {
                    self.warn(
                        command.value_at,
                        "int_cmd is \"stop_now\", \"stop_gracefully\" or \"stop_call\"; \
                         this counts as stop_call",
                    );
                    Action::StopCall
                }
            }));
        }
        for name in [
            "play_pcap_audio",
            "play_pcap_image",
            "play_pcap_video",
            "play_dtmf",
            "rtp_stream",
            "rtp_echo",
        ] {
            if let Some(attribute) = attributes.take(name) {
                self.media(attribute.at, &format!("<exec {name}=...>"))?;
                return Ok(None);
            }
        }
        Err(self.problem(
            element.at,
            "<exec> needs either command=\"...\" or int_cmd=\"...\"",
        ))
    }

    fn check(&self, attributes: &mut Attributes<'_>) -> Result<Check, Problem> {
        let inverse_at = attributes.take("check_it_inverse").map(|a| a.at);
        match (
            attributes.flag("check_it")?,
            attributes.flag("check_it_inverse")?,
        ) {
            (false, false) => Ok(Check::No),
            (true, false) => Ok(Check::MustBe),
            (false, true) => Ok(Check::MustNotBe),
            (true, true) => Err(self.problem(
                inverse_at.unwrap_or(0),
                "check_it and check_it_inverse exclude each other",
            )),
        }
    }

    /// A number in `value`, or the variable that the attribute `name` names.
    fn operand(
        &mut self,
        element: &Element,
        attributes: &mut Attributes<'_>,
        name: &str,
    ) -> Result<Operand, Problem> {
        let value = attributes.number("value")?;
        match (value, attributes.text(name)) {
            (Some(number), None) => Ok(Operand::Number(number)),
            (None, Some((text, at))) => Ok(Operand::Variable(self.variable(text.trim(), at)?)),
            _ => Err(self.problem(
                element.at,
                format!(
                    "<{}> needs either value=\"NUMBER\" or {name}=\"...\"",
                    element.name
                ),
            )),
        }
    }

    fn named(&mut self, attributes: &mut Attributes<'_>, name: &str) -> Result<VarRef, Problem> {
        let attribute = attributes.required(name)?;
        let text = String::from_utf8_lossy(&attribute.value).into_owned();
        self.variable(text.trim(), attribute.value_at)
    }

    fn target(&mut self, attributes: &mut Attributes<'_>) -> Result<VarRef, Problem> {
        self.named(attributes, "assign_to")
    }

    fn optional_target(
        &mut self,
        attributes: &mut Attributes<'_>,
    ) -> Result<Option<VarRef>, Problem> {
        attributes
            .text("assign_to")
            .map(|(text, at)| self.variable(text.trim(), at))
            .transpose()
    }

    fn targets(&mut self, list: &Attribute) -> Result<Vec<VarRef>, Problem> {
        attributes::names(self.source, list)?
            .into_iter()
            .map(|(name, at)| self.variable(&name, at))
            .collect()
    }
}

/// The address that a destination names; IPv6 may stand in brackets.
pub(crate) fn destination_ip(host: &str) -> Option<std::net::IpAddr> {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse().ok()
}

/// The port that a destination names.
pub(crate) fn destination_port(port: &str) -> Option<u16> {
    port.trim().parse().ok()
}
