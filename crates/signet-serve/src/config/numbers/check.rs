//! What is wrong in numbers, rules and groups of users.

use sip_engine::numbers::{BadRule, Rewrite};

use crate::config::Config;
use crate::config::check::Faults;

/// Rules that rewrite numbers.
const RULES_MAX: usize = 1_000;

impl Config {
    pub(in crate::config) fn check_calls(&self, faults: &mut Faults) {
        self.check_rewriting(faults);
        let mut names = std::collections::BTreeSet::new();
        for (nth, group) in self.user_group.iter().enumerate() {
            let at = format!("user_group.{nth}.name");
            if group.name.is_empty() {
                faults.add(&at, "a group without a name", "write a name");
            } else if !names.insert(group.name.as_str()) {
                faults.add(
                    &at,
                    &format!("a group of users named `{}` stands above", group.name),
                    "give each group a name of its own",
                );
            }
        }
        for (nth, number) in self.numbers.emergency.iter().enumerate() {
            if number.0.is_empty() {
                faults.add(
                    &format!("numbers.emergency.{nth}"),
                    "an emergency number without digits",
                    "write its digits, for example \"112\"",
                );
            }
        }
        if self.numbers.timezone.is_none() {
            for (nth, route) in self.route.iter().enumerate() {
                if route.when.is_some() {
                    faults.add(
                        &format!("route.{nth}.when"),
                        "hours, and nobody knows of which place",
                        "write timezone = \"Europe/Berlin\", or your own, in [numbers]",
                    );
                }
            }
        }
    }

    fn check_rewriting(&self, faults: &mut Faults) {
        if self.rewrite.len() > RULES_MAX {
            faults.add("rewrite", "there are more than 1000 rules", "drop some");
            return;
        }
        let mut is_sound = true;
        for (nth, rule) in self.rewrite.iter().enumerate() {
            let (key, what, remedy) = match Rewrite::new(&rule.pattern, &rule.to) {
                Ok(_) => match undialled(&rule.to) {
                    None => continue,
                    Some(sign) => (
                        "to",
                        format!("`{sign}` cannot be dialled, so no number comes of this rule"),
                        "write digits, + at the front, * and #, and $1 for what the first group has matched",
                    ),
                },
                Err(BadRule::Pattern(why)) => (
                    "match",
                    format!("`{}` is no regular expression: {why}", rule.pattern),
                    "write one that whole numbers fit, for example \"0([1-9][0-9]*)\"",
                ),
                Err(BadRule::To(name)) => (
                    "to",
                    format!("`${name}` is no group of `{}`", rule.pattern),
                    "groups are numbered from 1 on, as they open; write ${1}0 where a digit follows",
                ),
            };
            is_sound = false;
            faults.add(&format!("rewrite.{nth}.{key}"), &what, remedy);
        }
        if !is_sound {
            return;
        }
        let rules = self.number_rules();
        for (nth, rule) in self.rewrite.iter().enumerate() {
            for (example, (from, to)) in rule.examples.iter().enumerate() {
                let is_bare = |sign: char| sign.is_ascii_digit() || "+*#".contains(sign);
                let what = match rules.rewritten(from) {
                    _ if !from.chars().all(is_bare) => {
                        format!("`{from}` is no number as rules get it, without visual separators")
                    }
                    Some(written) if written == *to => continue,
                    None if rules.is_emergency(from) && from == to => continue,
                    None if rules.is_emergency(from) => {
                        format!("`{from}` is an emergency number, and no rule makes another of it")
                    }
                    Some(written) => format!("`{from}` becomes `{written}`, and not `{to}`"),
                    None => format!("`{from}` fits no rule, so it does not become `{to}`"),
                };
                faults.add(
                    &format!("rewrite.{nth}.examples.{example}"),
                    &what,
                    "mend the rule or the example; the first rule that fits counts",
                );
            }
        }
    }
}

/// What of the text in the place of a number cannot be dialled, beside its groups.
fn undialled(to: &str) -> Option<char> {
    let mut rest = to;
    let mut is_front = true;
    while let Some(sign) = rest.chars().next() {
        rest = rest.get(sign.len_utf8()..).unwrap_or_default();
        match sign {
            '$' if rest.starts_with('{') => {
                rest = rest.split_once('}').map_or("", |(_, after)| after);
            }
            '$' => rest = rest.trim_start_matches(|sign: char| sign.is_ascii_digit()),
            '+' if is_front => {}
            '0'..='9' | '*' | '#' => {}
            other => return Some(other),
        }
        is_front = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::config::numbers::tests::parse;

    #[test]
    fn examples_are_tried_and_a_bad_one_is_pointed_at() {
        let rule = "[[rewrite]]\nmatch = \"0([1-9][0-9]*)\"\nto = \"+49$1\"\n";
        let good = format!("{rule}examples = [[\"030\", \"+4930\"]]\n");
        let config = parse(&good).unwrap();
        assert_eq!(
            config.number_rules().rewritten("030").as_deref(),
            Some("+4930")
        );
        for (text, line, told) in [
            (
                format!("{rule}examples = [[\"030\", \"+4930\"],\n[\"040\", \"40\"]]\n"),
                6,
                "`040` becomes `+4940`, and not `40`",
            ),
            (
                format!("{rule}examples = [[\"0030\", \"+30\"]]\n"),
                5,
                "`0030` fits no rule",
            ),
            (
                "[[rewrite]]\nmatch = \"(\"\nto = \"1\"\n".to_owned(),
                3,
                "`(` is no regular expression",
            ),
            (
                format!("{rule}examples = [[\"030 1\", \"+49301\"]]\n"),
                5,
                "`030 1` is no number as rules get it",
            ),
            (
                format!("{rule}examples = [\"030\", \"+4930\"]\n"),
                5,
                "stands where a pair belongs",
            ),
            (
                "[[rewrite]]\nmatch = \"([0-9]+)\"\nto = \"+49$1\"\nexamples = [[\"112\", \"+49112\"]]\n"
                    .to_owned(),
                5,
                "no rule makes another of it",
            ),
            (
                "[[rewrite]]\nmatch = \"0(.*)\"\nto = '+49\\1'\n".to_owned(),
                4,
                "`\\` cannot be dialled",
            ),
            (
                "[[rewrite]]\nmatch = \"0(.*)\"\nto = \"$1+\"\n".to_owned(),
                4,
                "`+` cannot be dialled",
            ),
            (
                "[[rewrite]]\nmatch = \"0(\\d*)\"\nto = \"$1\"\n".to_owned(),
                3,
                "write the text in single quotes",
            ),
            (
                "[[rewrite]]\nmatch = \"(1)\"\nto = \"$2\"\n".to_owned(),
                4,
                "`$2` is no group",
            ),
            (
                "[[gateway_group]]\nname = \"g\"\ngateways = [{ uri = \"sip:a\" }]\n\
                 [[route]]\nprefix = \"0\"\ngroup = \"g\"\nwhen = \"Sa\"\n"
                    .to_owned(),
                8,
                "write timezone = ",
            ),
            (
                "[[user_group]]\nname = \"a\"\n[[user_group]]\nname = \"a\"\n".to_owned(),
                5,
                "stands above",
            ),
            (
                "[numbers]\ncountry_code = \"049\"\n".to_owned(),
                3,
                "is no country's code",
            ),
            (
                "[numbers]\nemergency = [\"\"]\n".to_owned(),
                3,
                "without digits",
            ),
            (
                "[numbers]\npermissions = \"all\"\n".to_owned(),
                3,
                "international",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(&format!("t.toml:{line}")), "{text}{error}");
            assert!(error.contains(told), "{text}{error}");
        }
    }
}
