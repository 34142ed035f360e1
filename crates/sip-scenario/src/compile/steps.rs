//! `<send>`, `<recv>`, `<sendCmd>`, `<recvCmd>`, `<pause>`, `<timewait>` and `<nop>`.

use crate::distribution::Distribution;
use crate::problem::Problem;
use crate::program::{
    Action, CommandStep, Expects, Pause, Presence, ReceiveCommandStep, RecvStep, SendStep, Step,
    What,
};
use crate::template::Kind;
use crate::xml::Element;

use super::attributes::Attributes;
use super::{Compiler, PEERS_MAX, Wanted, index_of};

impl Compiler<'_> {
    pub(super) fn send(&mut self, element: &Element) -> Result<(), Problem> {
        let mut attributes = Attributes::new(self.source, element);
        let retrans_ms = attributes.whole("retrans")?.filter(|ms| *ms > 0);
        let start_txn = self.txn(&mut attributes, "start_txn")?;
        if let Some(number) = start_txn
            && let Some(started) = self.started.get_mut(usize::from(number))
        {
            *started = true;
        }
        let ack_txn = self.txn(&mut attributes, "ack_txn")?;
        if let Some(timeout) = attributes.take("timeout")
            && attributes.whole("timeout")?.is_some_and(|ms| ms > 0)
        {
            let what = "the timeout of a <send> is passed over: \
                        what cannot be sent at once waits in the socket's queue";
            self.warn(timeout.at, what);
        }
        let Some(cdata) = &element.cdata else {
            return Err(self.problem(element.at, "<send> needs the message: <![CDATA[ ... ]]>"));
        };
        let template = self.message(&cdata.bytes, cdata.at)?;
        let kind = template.kind();
        if let (Some(_), Kind::Response) = (start_txn, &kind) {
            return Err(self.problem(element.at, "a response starts no transaction"));
        }
        let what = What::Send(Box::new(SendStep {
            template,
            kind,
            retrans_ms,
            start_txn,
            ack_txn,
        }));
        self.step(element, attributes, what)
    }

    pub(super) fn recv(&mut self, element: &Element) -> Result<(), Problem> {
        let mut attributes = Attributes::new(self.source, element);
        self.no_cdata(element);
        let matching = attributes.flag("regexp_match")?;
        let response = attributes.text("response");
        let request = attributes.take("request");
        let expects = match (response, request) {
            (Some((text, at)), None) => match text.trim().parse::<u16>() {
                Ok(code) if (100..=999).contains(&code) => Expects::Response(code),
                _ => {
                    return Err(self.problem(
                        at,
                        format!("a response is a status code from 100 on, not {text:?}"),
                    ));
                }
            },
            (None, Some(request)) if matching => {
                let text = String::from_utf8_lossy(&request.value).into_owned();
                let regex = self.regex(&request.value, false, request.value_at)?;
                Expects::RequestMatching(regex, text)
            }
            (None, Some(request)) => Expects::Request(request.value.clone()),
            (None, None) => {
                self.warn(
                    element.at,
                    "<recv> without request=\"METHOD\" or response=\"CODE\" expects nothing \
                     that could come",
                );
                Expects::Nothing
            }
            (Some(_), Some(request)) => {
                return Err(self.problem(request.at, "<recv> has request or response, not both"));
            }
        };
        let optional = self.presence(&mut attributes)?;
        let keeps_routes = attributes.flag("rrs")?;
        let keeps_challenge = attributes.flag("auth")?;
        let timeout_ms = attributes.whole("timeout")?.filter(|ms| *ms > 0);
        let response_txn = self.txn(&mut attributes, "response_txn")?;
        if let (Some(number), Some(attribute)) = (response_txn, attributes.take("response_txn")) {
            self.wanted_transactions.push((number, attribute.value_at));
        }
        let advances = match attributes.take("advance_state") {
            None => true,
            Some(attribute) => {
                let advances = attributes.flag("advance_state")?;
                if !advances && optional == Presence::Mandatory {
                    let what = "advance_state=\"false\" is for optional messages";
                    return Err(self.problem(attribute.at, what));
                }
                advances
            }
        };
        let what = What::Recv(Box::new(RecvStep {
            expects,
            optional,
            keeps_routes,
            keeps_challenge,
            timeout_ms,
            advances,
            response_txn,
            methods: self.methods.clone(),
        }));
        self.step(element, attributes, what)?;
        let jumps = self.steps.last().is_some_and(|step| {
            let mut actions = step.actions.iter();
            actions.any(|action| matches!(action, Action::Jump(_)))
        });
        if jumps && optional == Presence::Mandatory {
            self.warn(
                element.at,
                "<jump> in a <recv> that is not optional: the call jumps, and under SIPp \
                 it goes on behind the <recv>",
            );
        }
        Ok(())
    }

    fn presence(&self, attributes: &mut Attributes<'_>) -> Result<Presence, Problem> {
        let Some((text, at)) = attributes.text("optional") else {
            return Ok(Presence::Mandatory);
        };
        match text.as_str() {
            "true" => Ok(Presence::Optional),
            "false" => Ok(Presence::Mandatory),
            "global" => Ok(Presence::Global),
            _ => Err(self.problem(
                at,
                format!("optional is \"true\", \"false\" or \"global\", not {text:?}"),
            )),
        }
    }

    pub(super) fn send_command(&mut self, element: &Element) -> Result<(), Problem> {
        let mut attributes = Attributes::new(self.source, element);
        let dest = match attributes.text("dest") {
            Some((name, at)) if self.options.names_peers => Some(self.peer(&name, at)?),
            None if self.options.names_peers => {
                let what = "<sendCmd> needs dest=\"NAME\": with -slave_cfg instances have names";
                return Err(self.problem(element.at, what));
            }
            // With -3pcc there is only one other instance.
            _ => None,
        };
        let Some(cdata) = &element.cdata else {
            return Err(self.problem(element.at, "<sendCmd> needs the command: <![CDATA[ ... ]]>"));
        };
        let template = self.command(&cdata.bytes, cdata.at)?;
        let what = What::SendCommand(Box::new(CommandStep { template, dest }));
        self.step(element, attributes, what)
    }

    pub(super) fn receive_command(&mut self, element: &Element) -> Result<(), Problem> {
        let mut attributes = Attributes::new(self.source, element);
        self.no_cdata(element);
        let src = attributes.take("src").map(|src| src.value.clone());
        let src = src.filter(|_| self.options.names_peers);
        if src.is_none() && self.options.names_peers {
            let what = "<recvCmd> needs src=\"NAME\": with -slave_cfg instances have names";
            return Err(self.problem(element.at, what));
        }
        let is_optional = self.presence(&mut attributes)? != Presence::Mandatory;
        let what = What::ReceiveCommand(ReceiveCommandStep { src, is_optional });
        self.step(element, attributes, what)
    }

    fn peer(&mut self, name: &str, at: usize) -> Result<u16, Problem> {
        let known = self.peers.iter().position(|known| known == name);
        let index = known.unwrap_or(self.peers.len());
        if index >= PEERS_MAX {
            return Err(self.problem(at, format!("commands to more than {PEERS_MAX} instances")));
        }
        if known.is_none() {
            self.peers.push(name.to_owned());
        }
        index_of(self.source, index, at)
    }

    pub(super) fn pause(&mut self, element: &Element) -> Result<(), Problem> {
        let mut attributes = Attributes::new(self.source, element);
        self.no_cdata(element);
        let pause = if let Some((name, at)) = attributes.text("variable") {
            Pause::Variable(self.variable(name.trim(), at)?)
        } else {
            match self.pause_distribution(element, &mut attributes)? {
                Some(distribution) => Pause::Of(distribution),
                None => Pause::Default,
            }
        };
        self.step(element, attributes, What::Pause(pause))
    }

    pub(super) fn timewait(&mut self, element: &Element) -> Result<(), Problem> {
        let mut attributes = Attributes::new(self.source, element);
        self.no_cdata(element);
        let distribution = self.pause_distribution(element, &mut attributes)?;
        if distribution.is_none() {
            let what = "<timewait> without milliseconds is as long as -d says";
            self.warn(element.at, what);
        }
        self.step(
            element,
            attributes,
            What::Pause(Pause::TimeWait(distribution)),
        )
    }

    pub(super) fn nop(&mut self, element: &Element) -> Result<(), Problem> {
        let attributes = Attributes::new(self.source, element);
        self.no_cdata(element);
        self.step(element, attributes, What::Nop)
    }

    fn pause_distribution(
        &self,
        element: &Element,
        attributes: &mut Attributes<'_>,
    ) -> Result<Option<Distribution>, Problem> {
        attributes.flag("sanity_check")?;
        if let Some(distribution) = self.distribution(element, attributes)? {
            return Ok(Some(distribution));
        }
        if let Some(distribution) = self.old_distribution(element, attributes)? {
            return Ok(Some(distribution));
        }
        // An older way to write a uniform distribution.
        match (attributes.number("min")?, attributes.number("max")?) {
            (Some(min), Some(max)) => Ok(Some(Distribution::Uniform { min, max })),
            (None, None) => {
                let milliseconds = attributes.number("milliseconds")?;
                Ok(milliseconds.map(Distribution::Fixed))
            }
            _ => Err(self.problem(element.at, "min and max go together")),
        }
    }

    fn txn(&mut self, attributes: &mut Attributes<'_>, name: &str) -> Result<Option<u16>, Problem> {
        let Some((text, at)) = attributes.text(name) else {
            return Ok(None);
        };
        let number = self.transaction(&text, at)?;
        if name == "ack_txn" {
            self.wanted_transactions.push((number, at));
        }
        Ok(Some(number))
    }

    /// Notes the labels at which a call goes on behind the step that comes next.
    fn want_labels(&mut self, attributes: &mut Attributes<'_>) {
        for (name, is_timeout) in [("next", false), ("ontimeout", true)] {
            if let Some((label, at)) = attributes.text(name) {
                self.wanted.push(Wanted {
                    step: self.steps.len(),
                    label,
                    at,
                    is_timeout,
                });
            }
        }
    }

    /// What all steps have in common, and the step itself.
    fn step(
        &mut self,
        element: &Element,
        mut attributes: Attributes<'_>,
        what: What,
    ) -> Result<(), Problem> {
        self.want_labels(&mut attributes);
        let mut variable = |attributes: &mut Attributes<'_>, name: &str| {
            attributes
                .text(name)
                .map(|(text, at)| self.variable(text.trim(), at))
                .transpose()
        };
        let test = variable(&mut attributes, "test")?;
        let condexec = variable(&mut attributes, "condexec")?;
        let condexec_inverse = attributes.flag("condexec_inverse")?;
        let chance = attributes.number("chance")?;
        let lost = match what {
            What::Send(_) | What::Recv(_) => attributes.number("lost")?,
            _ => None,
        };
        for (name, value, max) in [("chance", chance, 1.0), ("lost", lost, 100.0)] {
            if let Some(value) = value
                && !(0.0..=max).contains(&value)
            {
                return Err(self.problem(element.at, format!("{name} is from 0 to {max}")));
            }
        }
        let start_rtd = attributes
            .text("start_rtd")
            .map(|(name, at)| self.rtd(&name, at))
            .transpose()?;
        let stop_rtd = attributes
            .text("rtd")
            .filter(|(name, _)| name != "false")
            .map(|(name, at)| self.rtd(&name, at))
            .transpose()?;
        let counter = attributes
            .text("counter")
            .map(|(name, at)| self.counter(&name, at))
            .transpose()?;
        let repeat_rtd = attributes.flag("repeat_rtd")?;
        // SIPp looks only whether it is there.
        let crlf = attributes.has("crlf");
        // Media is never touched, so there is nothing that SDP could change.
        attributes.flag("ignoresdp")?;
        if attributes.has("hiderest") {
            self.hides = attributes.flag("hiderest")?;
        }
        let hide = if attributes.has("hide") {
            attributes.flag("hide")?
        } else {
            self.hides
        };
        let display = attributes.text("display").map(|(text, _)| text);
        attributes.finish(&mut self.warnings);
        let actions = self.actions(element)?;
        let step = Step {
            what,
            next: None,
            on_timeout: None,
            test,
            chance,
            condexec,
            condexec_inverse,
            counter,
            start_rtd,
            stop_rtd,
            repeat_rtd,
            crlf,
            hide,
            display,
            lost: lost.map(|percent| percent / 100.0),
            actions,
        };
        self.push_step(step, element.at)
    }
}
