//! `<action>` and what stands in it.

use crate::problem::Problem;
use crate::program::{Action, Arithmetic, Check, Compare, Operand, SearchIn, TextOperand, VarRef};
use crate::xml::{Attribute, Element};

use super::Compiler;
use super::attributes::{self, Attributes};

impl Compiler<'_> {
    /// The actions of a step, in order.
    pub(super) fn actions(&mut self, step: &Element) -> Result<Vec<Action>, Problem> {
        let mut actions = Vec::new();
        for child in &step.children {
            if child.name != "action" {
                return Err(self.problem(
                    child.at,
                    format!("<{}> has no business inside <{}>", child.name, step.name),
                ));
            }
            Attributes::new(self.source, child).finish()?;
            self.no_cdata(child)?;
            for element in &child.children {
                self.leaf(element)?;
                let mut attributes = Attributes::new(self.source, element);
                let action = self.action(element, &mut attributes)?;
                attributes.finish()?;
                actions.push(action);
            }
        }
        Ok(actions)
    }

    fn action(
        &mut self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Action, Problem> {
        Ok(match element.name.as_str() {
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
            "exec" => self.exec(element, attributes)?,
            name @ ("setdest" | "verifyauth" | "insert" | "replace" | "index" | "closecon"
            | "pauserestore" | "rtpecho") => {
                return Err(self.problem(element.at, format!("<{name}> is not covered")));
            }
            name => {
                return Err(self.problem(element.at, format!("<{name}> is no action")));
            }
        })
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
        let place = attributes.required("search_in")?;
        let search_in = match (place.value.as_slice(), header, variable) {
            (b"msg", None, None) => SearchIn::Message,
            (b"body", None, None) => SearchIn::Body,
            (b"hdr", Some(header), None) if !header.value.is_empty() => SearchIn::Header {
                name: header.value.clone(),
                ignore_case,
                occurrence: occurrence.unwrap_or(1).max(1),
                at_line_start,
            },
            (b"var", None, Some(variable)) => {
                let name = String::from_utf8_lossy(&variable.value).into_owned();
                SearchIn::Variable(self.variable(name.trim(), variable.value_at)?)
            }
            (b"hdr", _, _) => {
                return Err(self.problem(place.at, "search_in=\"hdr\" needs header=\"NAME:\""));
            }
            (b"var", _, _) => {
                return Err(self.problem(place.at, "search_in=\"var\" needs variable=\"NAME\""));
            }
            (b"msg" | b"body", _, _) => {
                return Err(self.problem(place.at, "header and variable do not go with this"));
            }
            _ => {
                return Err(self.problem(
                    place.value_at,
                    "search_in is \"msg\", \"hdr\", \"body\" or \"var\"",
                ));
            }
        };
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
            return Err(self.problem(
                list.value_at,
                format!(
                    "{} variables for the match and {groups} parenthesised parts of it",
                    assign_to.len()
                ),
            ));
        }
        Ok(Action::Ereg {
            regex,
            search_in,
            check,
            assign_to,
        })
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
        let name = String::from_utf8_lossy(&file.value).into_owned();
        let number = self.file(&name, file.value_at)?;
        let is_indexed = self
            .options
            .files
            .get(usize::from(number))
            .is_some_and(|file| file.is_indexed());
        if !is_indexed {
            return Err(self.problem(
                file.value_at,
                format!("{name} has no index; give one with -infindex {name} FIELD"),
            ));
        }
        let key = attributes.required("key")?;
        Ok(Action::Lookup {
            to,
            file: number,
            key: self.text(key)?,
        })
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
    ) -> Result<Action, Problem> {
        for name in [
            "play_pcap_audio",
            "play_pcap_image",
            "play_pcap_video",
            "play_dtmf",
            "rtp_stream",
            "rtp_echo",
        ] {
            if let Some(attribute) = attributes.take(name) {
                return Err(self.problem(
                    attribute.at,
                    format!("<exec {name}=...> is not covered: this generator sends no media"),
                ));
            }
        }
        match (attributes.take("command"), attributes.take("int_cmd")) {
            (Some(command), None) => Ok(Action::Command(self.text(command)?)),
            (None, Some(command)) => match command.value.as_slice() {
                b"stop_now" => Ok(Action::StopNow),
                b"stop_gracefully" => Ok(Action::StopGracefully),
                b"stop_call" => Ok(Action::StopCall),
                _ => Err(self.problem(
                    command.value_at,
                    "int_cmd is \"stop_now\", \"stop_gracefully\" or \"stop_call\"",
                )),
            },
            _ => Err(self.problem(
                element.at,
                "<exec> needs either command=\"...\" or int_cmd=\"...\"",
            )),
        }
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
