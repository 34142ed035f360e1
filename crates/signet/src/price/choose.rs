//! `signet price choose`.

use clap::{Args, ValueEnum};
use protection::{
    Choice, End, Level, Listed, Offer, Policy, Unmet, Usage, Written, choose_ipsec, choose_tls,
    ipsec, tls,
};
use signet_bed::duration;
use sip_tls::{GROUP_NAMES, TlsEngine, TlsVersion};

use super::{Sources, told};

#[derive(Debug, Args)]
pub(crate) struct ChooseOptions {
    #[command(flatten)]
    sources: Sources,
    /// What is chosen: suites and groups of TLS, or a cipher and an authentication of IPsec
    #[arg(long = "for", value_enum, default_value_t = Family::Tls)]
    family: Family,
    /// The least level of confidentiality, 0 to 10
    #[arg(long, value_name = "LEVEL")]
    min_confidentiality: Option<Level>,
    /// The least level of authentication, 0 to 10
    #[arg(long, value_name = "LEVEL")]
    min_authentication: Option<Level>,
    /// The least level of forward secrecy, 0 to 10
    #[arg(long, value_name = "LEVEL")]
    min_forward_secrecy: Option<Level>,
    /// What a message may cost, with its unit: 20us
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_cost: Option<u64>,
    /// What the other end has, with commas between: TLS_AES_128_GCM_SHA256,ECDHE-RSA-AES128-SHA,X25519
    #[arg(long, value_name = "NAMES")]
    peer_offers: Option<String>,
    /// Which end of TLS this is [default: listener]
    #[arg(long, value_enum)]
    end: Option<Ends>,
    /// Bytes of a message or packet
    #[arg(long, value_name = "N", default_value_t = Usage::default().message_bytes, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    message_bytes: u32,
    /// Messages for which TLS makes one full handshake [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    messages_per_handshake: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Family {
    /// Cipher suites and key-exchange groups
    Tls,
    /// ESP, and AH for authentication, in transport mode
    Ipsec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ends {
    /// It accepts connections
    Listener,
    /// It opens them
    Client,
}

impl ChooseOptions {
    pub(super) fn run(&self) -> Result<String, String> {
        let policy = Policy {
            min_confidentiality: self.min_confidentiality,
            min_authentication: self.min_authentication,
            min_forward_secrecy: self.min_forward_secrecy,
            max_cost_ns: self.max_cost.map(|ns| ns as f64),
        };
        let prices = self.sources.prices()?;
        let levels = self.sources.levels()?;
        let chosen: Result<Choice, Unmet> = match self.family {
            Family::Tls => {
                let offer = self.offer()?;
                choose_tls(
                    &policy,
                    &offer,
                    self.this_end(),
                    self.usage(),
                    &levels,
                    &prices,
                )
                .map(|chosen| chosen.choice)
            }
            Family::Ipsec => {
                self.refuse_of_handshakes()?;
                let peer = self.peer_offers.as_deref().map(ipsec::peer_offers);
                let peer = peer.transpose()?;
                choose_ipsec(
                    &policy,
                    peer.as_deref(),
                    self.message_bytes,
                    &levels,
                    &prices,
                )
            }
        };
        let choice = chosen.map_err(|unmet| {
            let told = unmet.text(Written::Options);
            told.trim_end().to_owned()
        })?;
        let asked = format!("{policy}, by {prices}");
        let reckoned_for = self.reckoned_for();
        self.sources
            .draw(|| signet_price::choose::page(&choice, &asked, &reckoned_for))?;
        told(
            self.sources.json.as_deref(),
            || format!("{asked}\ncosts are {reckoned_for}\n\n{}", choice.text()),
            || Ok(choice.json()),
        )
    }

    /// Refuses what is said of handshakes, where none are made.
    fn refuse_of_handshakes(&self) -> Result<(), String> {
        let given = [
            (self.end.is_some(), "--end"),
            (
                self.messages_per_handshake.is_some(),
                "--messages-per-handshake",
            ),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => Err(format!(
                "{option} is about handshakes of TLS, and a packet of IPsec has none: leave it out"
            )),
            None => Ok(()),
        }
    }

    fn offer(&self) -> Result<Offer, String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let peer = self.peer_offers.as_deref().map(tls::peer_offers);
        Ok(Offer {
            versions: TlsVersion::ALL.map(TlsVersion::name).to_vec(),
            suites: Listed::Open(owned(TlsEngine::Modern.suite_names())),
            groups: Listed::Open(owned(&GROUP_NAMES)),
            peer: peer.transpose()?,
        })
    }

    fn this_end(&self) -> End {
        match self.end {
            None | Some(Ends::Listener) => End::Accepts,
            Some(Ends::Client) => End::Connects,
        }
    }

    fn usage(&self) -> Usage {
        let default = Usage::default().messages_per_handshake;
        Usage {
            message_bytes: self.message_bytes,
            messages_per_handshake: self.messages_per_handshake.unwrap_or(default),
        }
    }

    /// What the costs are costs of.
    fn reckoned_for(&self) -> String {
        let bytes = self.message_bytes;
        match self.family {
            Family::Tls => format!(
                "those of a message of {bytes} bytes that is received and sent on, and of 1/{} of a full handshake",
                self.usage().messages_per_handshake
            ),
            Family::Ipsec => {
                format!("those of a packet of {bytes} bytes that is sent once and received once")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use crate::price::PriceCommand;
    use clap::Parser;

    fn parsed(line: &str) -> Result<ChooseOptions, clap::Error> {
        let words = format!("signet price choose {line}");
        let args = Args::try_parse_from(words.split_whitespace())?;
        match args.command {
            Command::Price {
                command: PriceCommand::Choose(options),
            } => Ok(options),
            _ => panic!("not choose"),
        }
    }

    #[test]
    fn what_is_no_level_no_time_and_no_size_is_refused() {
        for (line, told) in [
            ("--min-confidentiality 11", "from 0 to 10"),
            ("--min-authentication -1", "'-1'"),
            ("--min-forward-secrecy high", "from 0 to 10"),
            ("--max-cost 20", "write 30ms, 500us or 1s"),
            ("--message-bytes 0", "1..=65535"),
            ("--messages-per-handshake 0", "1..=1000000000"),
            ("--for ssh", "possible values"),
        ] {
            let error = parsed(line).unwrap_err().to_string();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
        let options = parsed("--min-confidentiality 7 --max-cost 20us").unwrap();
        assert_eq!(options.max_cost, Some(20_000));
        assert_eq!(options.usage(), Usage::default());
    }

    #[test]
    fn what_is_about_handshakes_is_refused_for_ipsec() {
        for option in [
            "--end client",
            "--end listener",
            "--messages-per-handshake 100",
        ] {
            let line = format!("--for ipsec {option}");
            let error = parsed(&line).unwrap().run().unwrap_err();
            let name = option.split(' ').next().unwrap();
            assert!(error.starts_with(&format!("{name} is about")), "{error}");
            assert!(error.ends_with("leave it out"), "{error}");
            assert!(parsed(option).unwrap().run().is_ok(), "{option}");
        }
    }

    #[test]
    fn an_unknown_name_in_an_offer_is_told_with_the_nearest() {
        let of = |line: &str| parsed(line).unwrap().run().unwrap_err();
        let error = of("--peer-offers TLS_AES_128_GCM_SHA25");
        assert!(
            error.contains("did you mean `TLS_AES_128_GCM_SHA256`?"),
            "{error}"
        );
        let error = of("--for ipsec --peer-offers AES-128-CBC,HMAC-SHA2");
        assert!(error.contains("`HMAC-SHA2` is no transform"), "{error}");
    }
}
