//! What of numbers is sound, and may still not be what the operator expects.

use sip_engine::numbers::{Permission, Rewrite};

use super::Numbers;
use crate::config::{Config, Mode};

impl Config {
    /// What becomes of calls for help that the operator may not expect.
    fn warn_of_help(&self, warnings: &mut Vec<String>) {
        let mut prefixes = self.route.iter().filter_map(|route| route.prefix.as_ref());
        let has_prefixes = prefixes.next().is_some();
        // Of a country that is not his, an operator has written no routes.
        let is_written = self.numbers.emergency != Numbers::default().emergency;
        for number in self.numbers.emergency.iter().map(|of| &*of.0) {
            for (nth, rule) in self.rewrite.iter().enumerate() {
                let fits = Rewrite::new(&rule.pattern, &rule.to);
                if let Some(other) = fits.ok().and_then(|rule| rule.apply(number))
                    && other != number
                {
                    warnings.push(format!(
                        "rewrite.{nth}: it would make `{other}` of the emergency number {number}, which stays what it is: an alias leads it elsewhere (signet alias add {number} TO)"
                    ));
                    break;
                }
            }
            let of_it = self.route.iter().filter_map(|route| {
                let prefix = &route.prefix.as_ref()?.0;
                number
                    .starts_with(&**prefix)
                    .then_some((prefix.len(), route))
            });
            let longest = of_it.clone().map(|(length, _)| length).max();
            if longest.is_none() && has_prefixes && is_written && self.forward.is_none() {
                warnings.push(format!(
                    "numbers.emergency: there is no route for {number}: write a [[route]] with prefix = \"{number}\", or have an alias lead it to who helps (signet alias add {number} TO)"
                ));
            }
            for (_, route) in of_it.filter(|(length, _)| Some(*length) == longest) {
                let group = self.gateway_group.iter().find(|of| of.name == route.group);
                let Some(group) = group else { continue };
                let front = group.prepend.as_ref().map_or("", |prepend| &*prepend.0);
                let kept = number.get(usize::from(group.strip)..).unwrap_or_default();
                if format!("{front}{kept}") != number {
                    warnings.push(format!(
                        "numbers.emergency: {number} leaves as `{front}{kept}` by the group {}: write a [[route]] with prefix = \"{number}\" to a group without strip and prepend",
                        group.name
                    ));
                }
            }
        }
    }

    pub(in crate::config) fn warn_of_numbers(&self, warnings: &mut Vec<String>) {
        self.warn_of_help(warnings);
        let numbers = &self.numbers;
        let needs_country = !numbers.blocked.is_empty()
            || !numbers.premium.is_empty()
            || numbers.permissions == Permission::National
            || (self.user_group.iter()).any(|of| of.permissions == Some(Permission::National));
        if numbers.country_code.is_none() && needs_country {
            warnings.push(
                "numbers.country_code: without it `0` and `+` are not known to lead to the same country, so a number may be blocked, or permitted, in one spelling alone"
                    .to_owned(),
            );
        }
        let has_limits = self.gateway_group.iter().any(|group| group.calls_max > 0)
            || (self.user_group.iter()).any(|of| of.calls_max.is_some_and(|max| max > 0));
        if has_limits && !self.proxy.record_route {
            warnings.push(
                "proxy.record_route: without it no BYE passes here, so calls are counted until they are answered and no longer"
                    .to_owned(),
            );
        }
        if has_limits && self.mode != Mode::Stateful {
            warnings.push(
                "calls_max: in this mode calls are not followed, so they are not counted; write mode = \"stateful\""
                    .to_owned(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::numbers::tests::parse;

    #[test]
    fn what_would_become_of_calls_for_help_is_told() {
        let group = |name: &str, more: &str| {
            format!(
                "[[gateway_group]]\nname = \"{name}\"\n{more}gateways = [{{ uri = \"sip:192.0.2.1\" }}]\n"
            )
        };
        let route = |prefix: &str, name: &str| {
            format!("[[route]]\nprefix = \"{prefix}\"\ngroup = \"{name}\"\n")
        };
        let (plain, plus) = (group("plain", ""), group("plus", "prepend = \"+\"\n"));
        let numbers = "[numbers]\ncountry_code = \"49\"\nemergency = [\"110\"]\n";
        let town = "[[rewrite]]\nmatch = \"([1-9][0-9]+)\"\nto = \"+4930$1\"\n";
        for (text, told) in [
            (String::new(), None),
            (format!("{numbers}{plain}{}", route("1", "plain")), None),
            // Of other countries' numbers, which stand there without being written, nothing is said.
            (format!("{plain}{}", route("0", "plain")), None),
            (
                format!("{numbers}{plain}{}", route("0", "plain")),
                Some("there is no route for 110"),
            ),
            (
                format!("{numbers}{plus}{}", route("1", "plus")),
                Some("110 leaves as `+110` by the group plus"),
            ),
            (
                format!(
                    "{numbers}{plain}{plus}{}{}",
                    route("1", "plus"),
                    route("110", "plain")
                ),
                None,
            ),
            (
                format!("{numbers}{town}"),
                Some("rewrite.0: it would make `+4930110` of the emergency number 110"),
            ),
        ] {
            let warnings = parse(&text).unwrap().warnings();
            let of_help: Vec<_> = (warnings.iter())
                .filter(|of| of.contains("emergency"))
                .collect();
            match told {
                None => assert!(of_help.is_empty(), "{text}{of_help:?}"),
                Some(told) => assert!(
                    of_help.len() == 1 && of_help[0].contains(told),
                    "{text}{of_help:?}"
                ),
            }
        }
    }
}
