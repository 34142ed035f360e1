//! What arrives: one flow, or several by weights.

use std::fmt;
use std::str::FromStr;

/// What an arrival is: a call, a registration, or another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// INVITE to BYE.
    Call,
    /// A registration of whoever's turn it is, registered already or not.
    Register,
    /// A registration of somebody who is registered already.
    Reregister,
    /// The removal of a registration.
    Deregister,
    /// OPTIONS.
    Options,
    /// MESSAGE.
    Message,
}

impl Flow {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Call,
        Self::Register,
        Self::Reregister,
        Self::Deregister,
        Self::Options,
        Self::Message,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Register => "register",
            Self::Reregister => "reregister",
            Self::Deregister => "deregister",
            Self::Options => "options",
            Self::Message => "message",
        }
    }

    /// Whether it can only be done by somebody who is registered.
    pub const fn needs_registration(self) -> bool {
        matches!(self, Self::Reregister | Self::Deregister)
    }

    /// Whether it is a REGISTER.
    pub const fn is_register(self) -> bool {
        matches!(self, Self::Register | Self::Reregister | Self::Deregister)
    }
}

/// Flows and how often each comes, in relation to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    parts: Vec<(Flow, u32)>,
}

impl Mix {
    /// One flow alone.
    pub fn only(flow: Flow) -> Self {
        Self {
            parts: vec![(flow, 1)],
        }
    }

    /// The flows.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        self.parts.iter().map(|part| part.0)
    }

    /// Whether this flow is among them.
    pub fn has(&self, flow: Flow) -> bool {
        self.flows().any(|f| f == flow)
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts: Vec<(Flow, u32)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let Some(flow) = Flow::ALL
                .into_iter()
                .find(|flow| flow.name() == name.trim())
            else {
                let names: Vec<&str> = Flow::ALL.iter().map(|flow| flow.name()).collect();
                return Err(format!(
                    "there is no flow '{}'; write one of {}",
                    name.trim(),
                    names.join(", ")
                ));
            };
            let weight = weight
                .trim()
                .parse::<u32>()
                .ok()
                .filter(|w| (1..=1_000_000).contains(w))
                .ok_or_else(|| {
                    format!("'{part}' has no weight; write {name}=8, a whole number of at least 1")
                })?;
            if parts.iter().any(|part| part.0 == flow) {
                return Err(format!("'{}' stands twice; write it once", flow.name()));
            }
            parts.push((flow, weight));
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(flow, _)] = self.parts[..] {
            return f.write_str(flow.name());
        }
        for (place, (flow, weight)) in self.parts.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{}={weight}", flow.name())?;
        }
        Ok(())
    }
}

/// Deals the flows out, each as often as its weight says and as evenly as that
/// can be done: never two runs with another mix.
#[derive(Clone, Debug)]
pub(crate) struct Dealer {
    parts: Vec<(Flow, i64, i64)>,
    total: i64,
}

impl Dealer {
    pub(crate) fn new(mix: &Mix) -> Self {
        let parts: Vec<_> = mix
            .parts
            .iter()
            .map(|&(flow, weight)| (flow, i64::from(weight), 0))
            .collect();
        let total = parts.iter().map(|part| part.1).sum();
        Self { parts, total }
    }

    pub(crate) fn next(&mut self) -> Flow {
        if let [(flow, ..)] = self.parts[..] {
            return flow;
        }
        for (_, weight, credit) in &mut self.parts {
            *credit += *weight;
        }
        let Some(chosen) = self.parts.iter_mut().max_by_key(|part| part.2) else {
            return Flow::Call;
        };
        chosen.2 -= self.total;
        chosen.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept_exactly_and_evenly() {
        let mix: Mix = "call=8,register=1,options=1".parse().unwrap();
        assert_eq!(mix.to_string(), "call=8,register=1,options=1");
        let mut dealer = Dealer::new(&mix);
        let dealt: Vec<Flow> = (0..1_000).map(|_| dealer.next()).collect();
        for window in dealt.chunks(10) {
            let count = |flow| window.iter().filter(|f| **f == flow).count();
            assert_eq!(
                (
                    count(Flow::Call),
                    count(Flow::Register),
                    count(Flow::Options)
                ),
                (8, 1, 1)
            );
        }
        assert_eq!(Dealer::new(&Mix::only(Flow::Message)).next(), Flow::Message);
        assert_eq!("options".parse(), Ok(Mix::only(Flow::Options)));
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        for (bad, why) in [
            (
                "calls",
                "there is no flow 'calls'; write one of call, register",
            ),
            ("call=0", "a whole number of at least 1"),
            ("call=8,call=1", "'call' stands twice"),
            ("call=,options", "no weight"),
        ] {
            let error = bad.parse::<Mix>().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
